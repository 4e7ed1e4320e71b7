#include "image/dwarf/abbrev.h"

#include <dwarf.h>

#include "image/dwarf/forms.h"

namespace uscope::image::dwarf {

bool AbbrevTable::parse_one(ByteReader& reader, uint64_t code) {
  Abbrev abbrev{.code = code, .first = uint32_t(specs_.size())};
  uint64_t tag = reader.uleb128();
  abbrev.has_children = reader.u8() != 0;
  if (tag > 0xffff) return false;
  abbrev.tag = uint16_t(tag);
  int32_t size = 0;
  while (reader) {
    uint64_t name = reader.uleb128(), form = reader.uleb128();
    if (name == 0 && form == 0) break;
    if (name > 0xffff || form > 0xffff || !reader) return false;
    AttrSpec spec{uint16_t(name), uint16_t(form)};
    if (form == DW_FORM_implicit_const) spec.implicit_const = reader.sleb128();
    if (name == DW_AT_sibling) abbrev.has_sibling = true;
    int width = fixed_form_size(spec.form, 4);
    size = width < 0 || size < 0 ? -1 : size + width;
    specs_.push_back(spec);
  }
  if (!reader) return false;
  abbrev.count = uint32_t(specs_.size()) - abbrev.first;
  abbrev.fixed_size = size;
  if (dense_ && code != abbrevs_.size() + 1) {
    dense_ = false;
    for (uint32_t i = 0; i < abbrevs_.size(); i++) by_code_.emplace(abbrevs_[i].code, i);
  }
  if (!dense_) by_code_.emplace(code, uint32_t(abbrevs_.size()));
  abbrevs_.push_back(abbrev);
  return true;
}

AbbrevTable AbbrevTable::parse(Bytes section, uint64_t offset) {
  AbbrevTable table;
  if (offset >= section.size()) return table;
  ByteReader reader(section, offset);
  while (reader) {
    uint64_t code = reader.uleb128();
    if (code == 0 || !reader || !table.parse_one(reader, code)) break;
  }
  table.bytes_read_ = reader.position() - offset;
  return table;
}

const Abbrev* AbbrevTable::find(uint64_t code) const {
  if (dense_) return code - 1 < abbrevs_.size() ? &abbrevs_[code - 1] : nullptr;
  auto found = by_code_.find(code);
  return found == by_code_.end() ? nullptr : &abbrevs_[found->second];
}

}  // namespace uscope::image::dwarf
