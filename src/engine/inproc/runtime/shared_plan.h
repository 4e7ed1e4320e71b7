// Where each map of a program lies in the shared memory, and what its MapInfo says. Made once from the
// program, used by the code that is compiled for it and by the reader. Plain data; touches no memory but what
// write() is given.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "codegen/program.h"
#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {

struct SharedPlan {
  std::vector<MapInfo> maps;  // by number in the program
  uint64_t thread_blocks = 0;
  uint64_t thread_stride = 0;
  uint32_t thread_limit = 0;
  // The per-thread array whose entries each begin with a word that says whether a hit has it; or none.
  std::optional<uint32_t> scratch;
  uint64_t bytes = 0;  // of all; most of it is never touched

  static Result<SharedPlan> make(const codegen::Program& program);
  // Into zeroed memory.
  void write(std::span<uint8_t> shared) const;
};

}  // namespace uscope::engine::inproc
