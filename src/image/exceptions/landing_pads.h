// Where an exception lands in a function: the cleanups and catch blocks that its LSDA (a table in
// .gcc_except_table, the same for C++, Rust and C with cleanups) lists. No instruction jumps there; the
// unwinder does.
#pragma once

#include <cstdint>
#include <vector>

#include "image/elf/elf_file.h"
#include "image/exceptions/unwind_entries.h"

namespace uscope::image {

struct LandingPads {
  std::vector<uint64_t> addresses;  // sorted, each once; may lie in another part of the function
  bool is_complete = true;          // false: the table is broken, or larger than its function allows
};

LandingPads read_landing_pads(const ElfFile& file, const UnwindEntry& entry);

}  // namespace uscope::image
