// Walks ELF notes, wherever an image keeps them: SHT_NOTE sections, and PT_NOTE segments for what sections do
// not cover. A damaged note ends the walk of its block, not of the image. Views are into the ElfFile's bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/bytes.h"

namespace uscope::image {

class ElfFile;

struct Note {
  std::string_view owner;  // "GNU", "stapsdt", "Go", ...
  uint32_t type = 0;
  Bytes description;
};

// Return false from `visit` to stop. Notes in a block are padded to 4 bytes, or 8 where `alignment` says so.
// Returns false if it was stopped.
bool for_each_note(Bytes block, uint64_t alignment, const std::function<bool(const Note&)>& visit);
// Every note of the image once.
void for_each_note(const ElfFile& file, const std::function<bool(const Note&)>& visit);

}  // namespace uscope::image
