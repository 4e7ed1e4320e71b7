// What a function's first instructions store into its frame: which incoming register goes to which slot.
// Knows only the few instructions that prologues are made of; it stops at the first one that it does not
// know, and at every call and jump (but Go's stack check), so what it reports is certain and may be
// incomplete. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace uscope::image::dwarf {

// The low `size` bytes of what the register held at the entry, at CFA + cfa_offset.
struct IncomingStore {
  int64_t cfa_offset = 0;
  uint8_t size = 0;
  uint32_t reg = 0;   // DWARF number; UINT32_MAX: something that did not come in a register
  uint64_t done = 0;  // how far behind the function's entry the instruction ends that stores it
};

// In order of execution.
std::vector<IncomingStore> incoming_stores(Bytes code);
// How far the stack pointer is below the frame address when all of the code, from the entry on, has run.
// Nothing if it has an instruction that is not known.
std::optional<int64_t> frame_size_after(Bytes code);

}  // namespace uscope::image::dwarf
