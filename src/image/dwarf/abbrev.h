// One abbreviation table of .debug_abbrev: what attributes, in which forms, the DIEs of a unit have. Parsed
// whole, once, and kept by the File it belongs to. Codes are usually 1..n, so a look-up is an index. Internal
// to dwarf/.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"

namespace uscope::image::dwarf {

struct AttrSpec {
  uint16_t name = 0;
  uint16_t form = 0;
  int64_t implicit_const = 0;
};

struct Abbrev {
  uint64_t code = 0;
  uint16_t tag = 0;
  bool has_children = false;
  bool has_sibling = false;
  uint32_t first = 0, count = 0;  // its AttrSpecs
  // Size of all attributes together in 32-bit DWARF, when no form is of variable size; else -1.
  int32_t fixed_size = -1;
};

class AbbrevTable {
 public:
  // Reads until the table's end or until it stops making sense; what was good until then stays usable.
  static AbbrevTable parse(Bytes section, uint64_t offset);

  const Abbrev* find(uint64_t code) const;
  uint64_t bytes_read() const { return bytes_read_; }
  std::span<const AttrSpec> specs(const Abbrev& abbrev) const {
    return std::span(specs_).subspan(abbrev.first, abbrev.count);
  }

 private:
  bool parse_one(ByteReader& reader, uint64_t code);

  std::vector<Abbrev> abbrevs_;
  std::vector<AttrSpec> specs_;
  std::unordered_map<uint64_t, uint32_t> by_code_;  // only when codes are not 1..n in order
  bool dense_ = true;
  uint64_t bytes_read_ = 0;
};

}  // namespace uscope::image::dwarf
