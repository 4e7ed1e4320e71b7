// How attribute values are spelled in .debug_info: reads one value of any DWARF 2–5 form, or steps over it.
// Values stay raw (an index stays an index): resolving needs the unit, see unit.h. Internal to dwarf/.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace uscope::image::dwarf {

struct AttrSpec;

struct Attr {
  uint16_t name = 0;
  uint16_t form = 0;
  uint64_t value = 0;  // number, offset, index, flag; signed forms sign-extended
  Bytes block;         // blocks, expressions, data16, inline strings (without their NUL)

  int64_t as_signed() const { return int64_t(value); }
  bool is_block() const;
  bool is_string() const;
  bool is_address() const;    // or an index of one
  bool is_reference() const;  // to another DIE
  // A plain number, as opposed to an offset into a section.
  bool is_constant() const;
};

// Bytes that a value of this form takes; -1 if that varies. DWARF offsets are 4 or 8 bytes wide.
int fixed_form_size(uint16_t form, unsigned offset_size);

// Reads one value at the reader's position. Fails (reader.failed()) at unknown forms.
Attr read_attr(ByteReader& reader, const AttrSpec& spec, unsigned offset_size, uint16_t version);
void skip_attr(ByteReader& reader, const AttrSpec& spec, unsigned offset_size, uint16_t version);

}  // namespace uscope::image::dwarf
