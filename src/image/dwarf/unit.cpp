#include "image/dwarf/unit.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/file.h"
#include "image/dwarf/ranges.h"
#include "image/dwarf/store.h"

namespace uscope::image::dwarf {
namespace {

// Longest chain of DW_AT_specification / DW_AT_abstract_origin that is followed.
constexpr int max_hops = 16;
// Deepest nesting of DIEs that the index follows; compilers stay far below.
constexpr size_t max_depth = 512;
constexpr size_t max_ranges = 4'000'000;

Language language_of(uint64_t code) {
  switch (code) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case 0x2c:  // DW_LANG_C17
    case 0x3e:  // DW_LANG_C23
      return Language::C;
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case 0x2a:  // DW_LANG_C_plus_plus_17
    case 0x2b:  // DW_LANG_C_plus_plus_20
    case 0x3a:  // DW_LANG_C_plus_plus_23
      return Language::Cpp;
    case DW_LANG_Rust:
      return Language::Rust;
    case DW_LANG_Go:
      return Language::Go;
    case DW_LANG_Mips_Assembler:
      return Language::Assembly;
    default:
      return code == 0 ? Language::Unknown : Language::Other;
  }
}

bool holds_names(uint16_t tag) {
  switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_subprogram:
      return true;
    default:
      return false;
  }
}

}  // namespace

// --- Die ---------------------------------------------------------------------------------------------------

std::optional<Attr> Die::attr(uint16_t name) const {
  if (!abbrev) return {};
  ByteReader reader(unit->section().first(unit->end), attrs);
  for (const AttrSpec& spec : unit->abbrevs().specs(*abbrev)) {
    if (spec.name == name) {
      Attr attr = read_attr(reader, spec, unit->offset_size, unit->version);
      if (!reader) return {};
      return attr;
    }
    skip_attr(reader, spec, unit->offset_size, unit->version);
    if (!reader) return {};
  }
  return {};
}

bool Die::flag(uint16_t name) const {
  auto found = attr(name);
  return found && found->value != 0;
}

std::string_view Die::string(uint16_t name) const {
  auto found = attr(name);
  return found ? unit->string(*found) : std::string_view();
}

std::optional<uint64_t> Die::number(uint16_t name) const {
  auto found = attr(name);
  if (!found || !found->is_constant()) return {};
  return found->value;
}

Die Die::reference(uint16_t name) const {
  auto found = attr(name);
  return found ? unit->reference(*found) : Die();
}

std::optional<Attr> Die::inherited(uint16_t name, Die* holder) const {
  Die die = *this;
  for (int hop = 0; die && hop < max_hops; hop++) {
    if (auto found = die.attr(name)) {
      if (holder) *holder = die;
      return found;
    }
    Die next = die.reference(DW_AT_abstract_origin);
    if (!next) next = die.reference(DW_AT_specification);
    die = next;
  }
  return {};
}

std::string_view Die::inherited_string(uint16_t name) const {
  Die holder;
  auto found = inherited(name, &holder);
  return found ? holder.unit->string(*found) : std::string_view();
}

Die Die::inherited_reference(uint16_t name) const {
  Die holder;
  auto found = inherited(name, &holder);
  return found ? holder.unit->reference(*found) : Die();
}

uint64_t Die::end_of_attrs() const {
  if (abbrev->fixed_size >= 0 && unit->offset_size == 4 && unit->version > 2) {
    return attrs + uint64_t(abbrev->fixed_size);
  }
  ByteReader reader(unit->section().first(unit->end), attrs);
  for (const AttrSpec& spec : unit->abbrevs().specs(*abbrev)) {
    skip_attr(reader, spec, unit->offset_size, unit->version);
  }
  return reader ? reader.position() : unit->end;
}

uint64_t Die::end_of_subtree() const {
  if (!has_children()) return end_of_attrs();
  if (abbrev->has_sibling) {
    auto sibling = attr(DW_AT_sibling);
    // Only forwards: a sibling that points back would make the walk endless.
    if (sibling && sibling->is_reference()) {
      uint64_t next = sibling->form == DW_FORM_ref_addr ? sibling->value : unit->offset + sibling->value;
      if (next > offset && next <= unit->end) return next;
    }
  }
  uint64_t position = end_of_attrs();
  Bytes section = unit->section().first(unit->end);
  for (uint64_t depth = 1; depth > 0;) {
    if (position >= section.size()) return unit->end;
    if (section[position] == 0) {
      depth--;
      position++;
      continue;
    }
    Die die = unit->die_at(position);
    if (!die) return unit->end;
    if (die.has_children()) depth++;
    position = die.end_of_attrs();
  }
  return position;
}

// --- Unit --------------------------------------------------------------------------------------------------

Bytes Unit::section() const { return file->section(in_types ? SectionId::Types : SectionId::Info); }

const AbbrevTable& Unit::abbrevs() const {
  if (!abbrevs_) abbrevs_ = file->abbrevs(abbrev_offset);
  return *abbrevs_;
}

Die Unit::die_at(uint64_t section_offset) const {
  if (section_offset < die_offset || section_offset >= end) return {};
  ByteReader reader(section().first(end), section_offset);
  uint64_t code = reader.uleb128();
  if (code == 0 || !reader) return {};
  const Abbrev* abbrev = abbrevs().find(code);
  if (!abbrev) {
    file->store->problem(file->path + ": a unit uses an abbreviation that does not exist");
    return {};
  }
  return {this, section_offset, abbrev, reader.position()};
}

const UnitFacts& Unit::facts() const {
  if (facts_) return *facts_;
  UnitFacts& facts = facts_.emplace();
  uint64_t header = offset_size == 4 ? 4 : 12;  // of the length field
  bool split = file->skeleton != nullptr || type == DW_UT_split_compile || type == DW_UT_split_type;
  if (version >= 5) {
    facts.str_offsets_base = facts.addr_base = header + 4;
    if (split) facts.loclists_base = facts.rnglists_base = header + 8;
  }
  Die die = root();
  if (!die) return facts;
  // The bases first: the strings below need them.
  auto base = [&](uint64_t& where, uint16_t name) {
    if (auto attr = die.attr(name)) where = attr->value;
  };
  base(facts.str_offsets_base, DW_AT_str_offsets_base);
  base(facts.addr_base, DW_AT_addr_base);
  base(facts.addr_base, DW_AT_GNU_addr_base);
  base(facts.loclists_base, DW_AT_loclists_base);
  base(facts.rnglists_base, DW_AT_rnglists_base);
  base(facts.ranges_base, DW_AT_GNU_ranges_base);
  facts.language = language_of(die.attr(DW_AT_language).value_or(Attr{}).value);
  facts.name = die.string(DW_AT_name);
  facts.directory = die.string(DW_AT_comp_dir);
  facts.producer = die.string(DW_AT_producer);
  facts.dwo_name = die.string(DW_AT_dwo_name);
  if (facts.dwo_name.empty()) facts.dwo_name = die.string(DW_AT_GNU_dwo_name);
  if (auto id = die.attr(DW_AT_GNU_dwo_id)) facts.dwo_id = id->value;
  if (version >= 5 && (type == DW_UT_skeleton || type == DW_UT_split_compile)) facts.dwo_id = signature;
  if (auto lines = die.attr(DW_AT_stmt_list)) facts.line_program = lines->value;
  if (auto low = die.attr(DW_AT_low_pc)) facts.low_pc = address(*low);
  bool is_skeleton = type == DW_UT_skeleton || (version < 5 && facts.dwo_id && !facts.dwo_name.empty());
  if (is_skeleton && file->skeleton == nullptr) facts.is_full_unit = false;
  if (die.tag() == DW_TAG_partial_unit) facts.is_full_unit = false;
  return facts;
}

const UnitIndex& Unit::index() const {
  if (index_) return *index_;
  UnitIndex& index = index_.emplace();
  struct Open {
    uint32_t scope;  // the innermost scope inside this DIE
    uint32_t own;    // the scope this DIE opened, if any
  };
  std::vector<Open> open;
  Bytes bytes = section().first(end);
  uint64_t position = die_offset;
  while (position < end) {
    if (bytes[position] == 0) {
      position++;
      if (open.empty()) break;
      if (open.back().own != UINT32_MAX) index.scopes[open.back().own].end = position;
      open.pop_back();
      if (open.empty()) break;
      continue;
    }
    Die die = die_at(position);
    if (!die) break;
    // Many functions of a broken file may name the same long list of ranges.
    if (index.functions.size() > max_ranges) break;
    if (die.tag() == DW_TAG_subprogram) {
      bool has_code = false;
      for_each_range(die, [&](uint64_t low, uint64_t high) {
        has_code = true;
        index.functions.push_back({low, high, die.offset});
      });
      if (has_code) index.concrete.push_back(die.offset);
    }
    position = die.end_of_attrs();
    if (!die.has_children()) {
      if (open.empty()) break;  // the root is alone
      continue;
    }
    if (open.size() >= max_depth) {
      position = die.end_of_subtree();
      continue;
    }
    uint32_t holder = open.empty() ? UINT32_MAX : open.back().scope;
    uint32_t own = UINT32_MAX;
    if (holds_names(die.tag())) {
      own = uint32_t(index.scopes.size());
      index.scopes.push_back({die.offset, end, holder});
    }
    open.push_back({own == UINT32_MAX ? holder : own, own});
  }
  std::sort(index.functions.begin(), index.functions.end(),
            [](const FunctionRange& a, const FunctionRange& b) { return a.low < b.low; });
  return index;
}

Die Unit::parent_of(const Die& die) const {
  const auto& scopes = index().scopes;
  auto after = std::upper_bound(scopes.begin(), scopes.end(), die.offset,
                                [](uint64_t at, const Scope& scope) { return at < scope.begin; });
  if (after == scopes.begin()) return {};
  uint32_t at = uint32_t(after - scopes.begin() - 1);
  while (at != UINT32_MAX && (scopes[at].end <= die.offset || scopes[at].begin == die.offset)) {
    at = scopes[at].parent;
  }
  return at == UINT32_MAX ? Die() : die_at(scopes[at].begin);
}

std::string_view Unit::string(const Attr& attr) const {
  switch (attr.form) {
    case DW_FORM_string:
      return as_text(attr.block);
    case DW_FORM_strp:
      return cstring_at(file->section(SectionId::Str), attr.value);
    case DW_FORM_line_strp:
      return cstring_at(file->section(SectionId::LineStr), attr.value);
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_strp_alt:
      return file->alt ? cstring_at(file->alt->section(SectionId::Str), attr.value) : std::string_view();
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case DW_FORM_GNU_str_index: {
      Bytes table = file->section(SectionId::StrOffsets);
      uint64_t base = facts().str_offsets_base;
      if (attr.value > table.size() || base > table.size()) return {};
      auto entry = slice(table, base + attr.value * offset_size, offset_size);
      if (!entry) return {};
      ByteReader reader(*entry);
      return cstring_at(file->section(SectionId::Str), reader.unsigned_of(offset_size));
    }
    default:
      return {};
  }
}

std::optional<uint64_t> Unit::address_by_index(uint64_t index) const {
  const Unit& holder = skeleton ? *skeleton : *this;
  Bytes table = holder.file->section(SectionId::Addr);
  uint64_t base = holder.facts().addr_base;
  if (index > table.size() || base > table.size()) return {};
  auto entry = slice(table, base + index * 8, 8);
  if (!entry) return {};
  return ByteReader(*entry).u64();
}

std::optional<uint64_t> Unit::address(const Attr& attr) const {
  if (attr.form == DW_FORM_addr) return attr.value;
  if (attr.is_address()) return address_by_index(attr.value);
  return {};
}

Die Unit::reference(const Attr& attr) const {
  switch (attr.form) {
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
      return attr.value < end - offset ? die_at(offset + attr.value) : Die();
    case DW_FORM_ref_addr: {
      const Unit* target = file->unit_at(attr.value);
      return target ? target->die_at(attr.value) : Die();
    }
    case DW_FORM_ref_sig8: {
      const Unit* target = file->store->type_unit(attr.value, *file);
      return target ? target->die_at(target->type_offset) : Die();
    }
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case DW_FORM_GNU_ref_alt: {
      if (!file->alt) {
        file->store->problem(file->path +
                             ": part of the debug info is in a dwz supplement that was not found");
        return {};
      }
      const Unit* target = file->alt->unit_at(attr.value);
      return target ? target->die_at(attr.value) : Die();
    }
    default:
      return {};
  }
}

uint64_t Unit::base_address() const {
  if (skeleton) return skeleton->facts().low_pc.value_or(0);
  return facts().low_pc.value_or(0);
}

// --- names -------------------------------------------------------------------------------------------------

std::string_view name_of(const Die& die) { return die.inherited_string(DW_AT_name); }

std::string qualified_name(const Die& die) {
  std::string name(name_of(die));
  if (die.unit->facts().language == Language::Go || die.unit->facts().language == Language::C) return name;
  // A definition outside its class or namespace is held by what holds its declaration.
  Die at = die;
  for (int hop = 0; hop < max_hops; hop++) {
    Die origin = at.reference(DW_AT_abstract_origin);
    if (!origin) origin = at.reference(DW_AT_specification);
    if (!origin) break;
    at = origin;
  }
  for (int level = 0; level < 64; level++) {
    at = at.unit->parent_of(at);
    if (!at) break;
    std::string_view holder = name_of(at);
    if (holder.empty() && at.tag() == DW_TAG_namespace) holder = "(anonymous namespace)";
    // An unscoped enumeration does not qualify what it holds; an unnamed class cannot.
    if (holder.empty() || at.tag() == DW_TAG_enumeration_type) continue;
    name.insert(0, "::");
    name.insert(0, holder);
    // The holder may itself be the definition of something declared elsewhere.
    if (Die declared = at.reference(DW_AT_specification)) at = declared;
  }
  return name;
}

}  // namespace uscope::image::dwarf
