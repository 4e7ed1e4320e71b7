#include "image/dwarf/forms.h"

#include <dwarf.h>

#include "image/dwarf/abbrev.h"

namespace uscope::image::dwarf {

bool Attr::is_block() const {
  switch (form) {
    case DW_FORM_block:
    case DW_FORM_block1:
    case DW_FORM_block2:
    case DW_FORM_block4:
    case DW_FORM_exprloc:
      return true;
    default:
      return false;
  }
}

bool Attr::is_string() const {
  switch (form) {
    case DW_FORM_string:
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_strp_sup:
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case DW_FORM_GNU_str_index:
    case DW_FORM_GNU_strp_alt:
      return true;
    default:
      return false;
  }
}

bool Attr::is_address() const {
  switch (form) {
    case DW_FORM_addr:
    case DW_FORM_addrx:
    case DW_FORM_addrx1:
    case DW_FORM_addrx2:
    case DW_FORM_addrx3:
    case DW_FORM_addrx4:
    case DW_FORM_GNU_addr_index:
      return true;
    default:
      return false;
  }
}

bool Attr::is_reference() const {
  switch (form) {
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
    case DW_FORM_ref_addr:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case DW_FORM_GNU_ref_alt:
      return true;
    default:
      return false;
  }
}

bool Attr::is_constant() const {
  switch (form) {
    case DW_FORM_data1:
    case DW_FORM_data2:
    case DW_FORM_data4:
    case DW_FORM_data8:
    case DW_FORM_sdata:
    case DW_FORM_udata:
    case DW_FORM_implicit_const:
      return true;
    default:
      return false;
  }
}

int fixed_form_size(uint16_t form, unsigned offset_size) {
  switch (form) {
    case DW_FORM_flag_present:
    case DW_FORM_implicit_const:
      return 0;
    case DW_FORM_data1:
    case DW_FORM_flag:
    case DW_FORM_ref1:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
      return 1;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
      return 2;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
      return 3;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
    case DW_FORM_ref_sup4:
      return 4;
    case DW_FORM_addr:
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
      return 8;
    case DW_FORM_data16:
      return 16;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_strp_sup:
    case DW_FORM_sec_offset:
    case DW_FORM_ref_addr:  // DWARF 2 spelled it as an address; uscope reads 4 and 5 (3 is the same)
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
      return int(offset_size);
    default:
      return -1;
  }
}

namespace {

// Values of variable size; the fixed ones are read by their width.
void read_variable(ByteReader& reader, Attr& attr) {
  switch (attr.form) {
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
    case DW_FORM_GNU_addr_index:
    case DW_FORM_GNU_str_index:
      attr.value = reader.uleb128();
      return;
    case DW_FORM_sdata:
      attr.value = uint64_t(reader.sleb128());
      return;
    case DW_FORM_string:
      attr.block = as_bytes(reader.cstring());
      return;
    case DW_FORM_block:
    case DW_FORM_exprloc:
      attr.block = reader.take(reader.uleb128());
      return;
    case DW_FORM_block1:
      attr.block = reader.take(reader.u8());
      return;
    case DW_FORM_block2:
      attr.block = reader.take(reader.u16());
      return;
    case DW_FORM_block4:
      attr.block = reader.take(reader.u32());
      return;
    default:
      reader.skip(UINT64_MAX);  // a form we do not know: nothing after it can be read
  }
}

uint64_t read_fixed(ByteReader& reader, int width) {
  if (width == 3) {
    uint64_t low = reader.u16();
    return low | uint64_t(reader.u8()) << 16;
  }
  return reader.unsigned_of(unsigned(width));
}

}  // namespace

Attr read_attr(ByteReader& reader, const AttrSpec& spec, unsigned offset_size, uint16_t version) {
  Attr attr{.name = spec.name, .form = spec.form};
  if (attr.form == DW_FORM_indirect) {
    uint64_t form = reader.uleb128();
    if (form == DW_FORM_indirect || form == DW_FORM_implicit_const || form > 0xffff) {
      reader.skip(UINT64_MAX);
      return attr;
    }
    attr.form = uint16_t(form);
  }
  int width = version <= 2 && attr.form == DW_FORM_ref_addr ? 8 : fixed_form_size(attr.form, offset_size);
  if (attr.form == DW_FORM_implicit_const) {
    attr.value = uint64_t(spec.implicit_const);
  } else if (attr.form == DW_FORM_flag_present) {
    attr.value = 1;
  } else if (width == 16) {
    attr.block = reader.take(16);
  } else if (width > 0) {
    attr.value = read_fixed(reader, width);
  } else {
    read_variable(reader, attr);
  }
  return attr;
}

void skip_attr(ByteReader& reader, const AttrSpec& spec, unsigned offset_size, uint16_t version) {
  int width = fixed_form_size(spec.form, offset_size);
  if (width >= 0 && !(version <= 2 && spec.form == DW_FORM_ref_addr)) {
    reader.skip(uint64_t(width));
  } else {
    read_attr(reader, spec, offset_size, version);
  }
}

}  // namespace uscope::image::dwarf
