// What can be known of a piece of eBPF code before it is translated: which registers, calls and words of the
// context it needs, where its functions begin, and which of its atomic operations touch only the thread's own
// memory. Errs on the side of needing more. Refuses what the translator cannot do, so that nothing fails
// later.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "codegen/program.h"
#include "x86/registers.h"

namespace uscope::engine::inproc {

struct CodeFacts {
  // Indexes of instructions: 0 and whatever is called, ascending.
  std::vector<uint32_t> functions;
  // Of `functions`, those whose address is taken, for calls back.
  std::vector<bool> is_callback;
  // eBPF registers that are used, as bits.
  uint32_t registers = 0;
  bool calls_runtime = false;
  bool reads_memory = false;  // from addresses that it computes
  bool uses_stack = false;
  bool uses_may_goto = false;
  // Words of Registers that are read, as bits. R6 only ever holds the context where context_in_r6.
  uint32_t context_words = 0;
  uint32_t loaded_words = 0;  // of them, those that the code itself reads, not a call
  bool unwinds = false;
  bool context_in_r6 = false;
  // Vector registers of which something is read, as bits; they lie behind Registers in the context.
  uint32_t vectors = 0;
  bool needs_site = false;
  // By instruction: the map whose address (or whose value's) the 16-byte load stands for, or -1.
  std::vector<int32_t> map_of_load;
  std::vector<bool> is_value_load;

  // Those that must be in the context as they were at a function's entry: the unwinder begins there with the
  // stack pointer, and hands on what calls preserve.
  x86::RegisterSet read_at_entry() const;
  bool is_function(uint32_t instruction) const;
  size_t function_of(uint32_t instruction) const;  // index into `functions`
};

Result<CodeFacts> facts_of(const codegen::Code& code, const codegen::Program& program);

}  // namespace uscope::engine::inproc
