#include "image/dwarf/name_index.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/go_attributes.h"

namespace uscope::image::dwarf {
namespace {

constexpr size_t max_depth = 64;
constexpr size_t max_entries = 20'000'000;
constexpr size_t max_imports = 1000;

uint64_t mix(uint64_t seed, uint64_t value) {
  uint64_t x = (seed ^ value) * 0x9e3779b97f4a7c15;
  return x ^ (x >> 29);
}
uint64_t hash_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

bool is_named_type(uint16_t tag) {
  switch (tag) {
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_typedef:
    case DW_TAG_interface_type:
    case DW_TAG_template_alias:
      return true;
    default:
      return false;
  }
}

bool holds_types(uint16_t tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
         tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

// Two types of one name are the same if they look the same from outside.
uint64_t shape_of(const Die& die) {
  uint64_t shape = mix(die.tag(), die.number(DW_AT_byte_size).value_or(0));
  if (die.tag() != DW_TAG_structure_type && die.tag() != DW_TAG_class_type &&
      die.tag() != DW_TAG_union_type && die.tag() != DW_TAG_enumeration_type) {
    return mix(shape, die.number(DW_AT_decl_line).value_or(0));
  }
  int count = 0;
  for_each_child(die, [&](const Die& child) {
    if (child.tag() == DW_TAG_member || child.tag() == DW_TAG_enumerator) {
      shape = mix(shape, hash_text(child.string(DW_AT_name)));
      shape = mix(shape, child.number(DW_AT_data_member_location).value_or(0));
    }
    return ++count < 1000;
  });
  return shape;
}

// The named types and variables of a unit, each with a hash of the names of what holds it.
template <typename Visit>
void for_each_named(const Unit& unit, Visit&& visit) {
  Die root = unit.root();
  if (!root || !root.has_children()) return;
  std::vector<uint64_t> scopes{0};  // one for each open level
  Bytes bytes = unit.section().first(unit.end);
  uint64_t position = root.end_of_attrs();
  while (position < unit.end) {
    if (bytes[position] == 0) {
      position++;
      scopes.pop_back();
      if (scopes.empty()) return;
      continue;
    }
    Die die = unit.die_at(position);
    if (!die) return;
    bool is_named =
        is_named_type(die.tag()) || (die.tag() == DW_TAG_variable && die.attr(DW_AT_location).has_value());
    if (is_named && !visit(die, scopes.back())) return;
    bool enter = die.has_children() && holds_types(die.tag()) && scopes.size() < max_depth;
    // Functions are entered too, for the types and statics they hold, but have no say in those' names here.
    enter |= die.has_children() && scopes.size() < max_depth &&
             (die.tag() == DW_TAG_subprogram || die.tag() == DW_TAG_lexical_block);
    if (enter) {
      scopes.push_back(mix(scopes.back(), hash_text(die.string(DW_AT_name))));
      position = die.end_of_attrs();
    } else {
      position = die.end_of_subtree();
    }
  }
}

}  // namespace

std::string_view last_component(std::string_view qualified) {
  int depth = 0;
  for (size_t i = qualified.size(); i-- > 1;) {
    char c = qualified[i];
    if (c == '>' || c == ')' || c == ']' || c == '}') depth++;
    if (c == '<' || c == '(' || c == '[' || c == '{') depth--;
    if (depth <= 0 && c == ':' && qualified[i - 1] == ':') return qualified.substr(i + 1);
  }
  return qualified;
}

NameIndex::NameIndex(const Store& store) : store_(store) {
  store_.for_each_unit([&](const Unit& unit) {
    add_unit(unit);
    unit.file->forget(unit);
    return entries_.size() < max_entries;
  });
  seen_ = {};
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
  entries_.shrink_to_fit();
}

void NameIndex::add(const Die& die, uint64_t scope) {
  std::string_view name = die.string(DW_AT_name);
  if (name.empty()) name = name_of(die);
  if (name.empty()) return;
  bool is_type = is_named_type(die.tag());
  bool is_declaration = die.flag(DW_AT_declaration);
  uint64_t shape = is_type && !is_declaration ? shape_of(die) : mix(die.tag(), is_declaration);
  // Variables of one name in different units are different variables.
  if (!is_type) shape = mix(shape, mix(die.unit->file->index, die.offset));
  uint64_t identity = mix(mix(scope, hash_text(name)), shape);
  if (!seen_.insert(identity).second) return;
  Entry entry;
  std::string_view own = die.unit->facts().language == Language::Go ? unqualified_go_name(name) : name;
  entry.hash = uint32_t(hash_text(own));
  entry.is_type = is_type;
  entry.is_declaration = is_declaration;
  entry.file = die.unit->file->index;
  entry.in_types = die.unit->in_types;
  entry.offset = die.offset;
  entries_.push_back(entry);
}

void NameIndex::add_unit(const Unit& unit) {
  for_each_named(unit, [this](const Die& die, uint64_t scope) {
    add(die, scope);
    return entries_.size() < max_entries;
  });
}

std::vector<Die> types_named(const Unit& unit, std::string_view name) {
  std::vector<Die> found;
  std::vector<const Unit*> units{&unit};
  // dwz and link-time optimisation put what units share into others.
  for_each_child(unit.root(), [&](const Die& child) {
    if (child.tag() != DW_TAG_imported_unit) return true;
    if (Die root = child.reference(DW_AT_import); root && units.size() < max_imports)
      units.push_back(root.unit);
    return true;
  });
  for (const Unit* each : units) {
    for_each_named(*each, [&](const Die& die, uint64_t) {
      if (is_named_type(die.tag()) && !die.flag(DW_AT_declaration) &&
          (name_of(die) == name || (name_of(die) == last_component(name) && qualified_name(die) == name)))
        found.push_back(die);
      return true;
    });
  }
  return found;
}

Die NameIndex::die_of(const Entry& entry) const {
  const File* file = store_.file(entry.file);
  const Unit* unit = file ? file->unit_at(entry.offset, entry.in_types) : nullptr;
  return unit ? unit->die_at(entry.offset) : Die();
}

void NameIndex::with_name(std::string_view unqualified,
                          const std::function<bool(const Entry&)>& visit) const {
  uint32_t hash = uint32_t(hash_text(unqualified));
  auto at = std::lower_bound(entries_.begin(), entries_.end(), hash,
                             [](const Entry& entry, uint32_t value) { return entry.hash < value; });
  for (; at != entries_.end() && at->hash == hash; ++at) {
    if (!visit(*at)) return;
  }
}

}  // namespace uscope::image::dwarf
