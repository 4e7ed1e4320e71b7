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

// Whether what is thrown at an instruction lands in the function: calls do, and where the compiler was told
// so
// (-fnon-call-exceptions) also faults. A table that cannot be read says yes.
bool lands_from(const ElfFile& file, const UnwindEntry& entry, uint64_t address);

}  // namespace uscope::image
