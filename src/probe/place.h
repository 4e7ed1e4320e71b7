// Where a value is, in terms the kernel's fetch syntax can spell: a register, memory reached by constant
// offsets from a register or from the image's load address, or a constant. A variable that lives in several
// registers has several parts. Used by fetch.cpp to walk from a variable into its fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "image/location.h"

namespace uscope::probe {

struct Operand {
  enum class Kind { Register, Memory, Static, Constant, Unavailable };
  Kind kind = Kind::Unavailable;
  std::string inner;   // Register: %di. Memory: the address's base, itself a fetch: %sp or +8(%di)
  int64_t offset = 0;  // Memory: from inner. Static: from the file's load address. Constant: the value
  std::string reason;  // Unavailable
  // A register holds more than the part asked for: which bits of it.
  uint32_t bit_offset = 0;

  // The fetch that yields the value stored here.
  std::string text() const;
};

struct Place {
  struct Part {
    uint64_t begin = 0, size = 0;  // bytes of the variable; size 0: all the rest
    Operand operand;
  };
  std::vector<Part> parts;

  // The part that holds bytes [offset, offset + size).
  Operand select(uint64_t offset, uint64_t size) const;
  // The same place, seen from `offset` on: a field of a struct.
  Place at(uint64_t offset) const;
};

// `static_base`: what is subtracted from an image address to get the kernel's @+OFFSET, i.e. the probed
// segment's address minus its file offset.
Place place_of(const image::Location& location, uint64_t static_base);
// The memory that a pointer value points to.
Place pointee(const Operand& pointer);

}  // namespace uscope::probe
