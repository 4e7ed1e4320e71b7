// Two spellings of one place: compares Locations byte by byte, so that [rdi, rsi] and [rdi:64 rsi:32] of a
// 12-byte struct are equal. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "image/location.h"

namespace uscope::image::dwarf {

struct ByteSource {
  enum class Kind { Unknown, Padding, Register, Memory };
  Kind kind = Kind::Unknown;
  uint32_t reg = 0;
  int64_t offset = 0;     // byte of the register, or offset from it
  bool is_deref = false;  // through a pointer there

  friend bool operator==(const ByteSource&, const ByteSource&) = default;
};

// One for each byte of a variable of `size` bytes.
std::vector<ByteSource> byte_sources(const Location& location, uint64_t size);
// Whether they agree wherever both say something.
bool agree(const Location& a, const Location& b, uint64_t size);

}  // namespace uscope::image::dwarf
