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
// Whether both say something, and the same, of each byte in [from, to) that is used.
bool same_bytes(const Location& a, const Location& b, uint64_t from, uint64_t to,
                const std::vector<bool>& used);
// LLVM computes the members of what it passes as one integer: (rdi >> 32) as 4 bytes. The bytes of the
// register that are meant, for a piece that begins at byte `at`; nothing for any other computation. Of a bool
// only one bit counts.
std::optional<LocPiece> as_register_bytes(const LocPiece& piece, uint64_t at, uint64_t bytes, bool is_bool);

}  // namespace uscope::image::dwarf
