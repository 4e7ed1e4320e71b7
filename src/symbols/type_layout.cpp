#include "symbols/type_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "symbols/short_names.h"

namespace uscope::symbols {
namespace {

using image::Language;
using image::Member;
using image::Type;
using image::TypeId;
using Item = LayoutItem;
using Kind = Type::Kind;

constexpr int deepest = 32;
constexpr size_t most_items = 100'000;

bool is_record(const Type& type) {
  switch (type.kind) {
    case Kind::Struct:
    case Kind::Class:
    case Kind::Union:
      return true;
    // Go's own are structs to the runtime.
    case Kind::GoString:
    case Kind::GoSlice:
    case Kind::GoInterface:
      return !type.members.empty();
    default:
      return false;
  }
}

bool is_vtable_pointer(const Member& member) {
  return member.is_artificial && (member.name.starts_with("_vptr") || member.name.starts_with("__vfptr"));
}

// A niche's values are far beyond what anyone reads in decimal.
std::string number_text(uint64_t value) {
  return value >> 32 ? fmt::format("{:#x}", value) : fmt::format("{}", value);
}

// rustc calls them __0, __1.
bool is_tuple_field(const Member& member) {
  return member.name.size() > 2 && member.name.starts_with("__") && member.name[2] >= '0' &&
         member.name[2] <= '9';
}

// Sizes that need a walk over nested types, each type once.
class Measures {
 public:
  explicit Measures(const image::TypeLookup& resolve) : resolve_(resolve) {}

  TypeId unalias(TypeId id) const {
    for (int i = 0; i < deepest && id; ++i) {
      const Type& type = resolve_(id);
      if (!is_alias(type.kind)) break;
      id = type.target;
    }
    return id;
  }

  uint64_t size(TypeId id) const {
    for (int i = 0; i < deepest && id; ++i) {
      const Type& type = resolve_(id);
      if (type.size != 0 || !is_alias(type.kind)) return type.size;
      id = type.target;
    }
    return 0;
  }

  uint64_t alignment(TypeId id) {
    if (auto known = alignments_.find(id.value); known != alignments_.end()) return known->second;
    alignments_[id.value] = 0;  // a type inside itself ends here
    return alignments_[id.value] = measure_alignment(resolve_(id));
  }

  // Where the last member ends. A derived class may start there, inside its base's padding.
  uint64_t data_end(TypeId id) {
    id = unalias(id);
    const Type& type = resolve_(id);
    if (!is_record(type) || !type.variant_parts.empty() || type.kind == Kind::Union) return type.size;
    if (auto known = data_ends_.find(id.value); known != data_ends_.end()) return known->second;
    data_ends_[id.value] = 0;
    uint64_t end = 0;
    for (const Member& member : type.members) {
      if (member.is_static) continue;
      if (member.is_virtual_base) return data_ends_[id.value] = type.size;
      if (member.bit_size) {
        end = std::max(end, (member.bit_offset + member.bit_size + 7) / 8);
      } else {
        end = std::max(end, member.offset + (member.is_base ? data_end(member.type) : size(member.type)));
      }
    }
    return data_ends_[id.value] = std::min(end, type.size);
  }

 private:
  uint64_t measure_alignment(const Type& type) {
    if (type.alignment) return type.alignment;
    if (type.kind == Kind::Array || is_alias(type.kind)) return type.target ? alignment(type.target) : 0;
    if (is_record(type)) {
      uint64_t most = type.size ? 1 : 0;
      const auto take = [&](const Member& member) {
        if (member.is_static || member.is_virtual_base) return;
        const uint64_t natural = alignment(member.type);
        // A packed record's members lie where their type alone would not put them.
        if (natural && !member.bit_size && member.offset % natural != 0) return;
        most = std::max(most, natural);
      };
      std::ranges::for_each(type.members, take);
      for (const auto& part : type.variant_parts) {
        if (part.discriminant) take(*part.discriminant);
        for (const auto& variant : part.variants) {
          if (variant.type) most = std::max(most, alignment(variant.type));
        }
      }
      while (most > 1 && type.size % most != 0) most /= 2;
      return most;
    }
    // Two words are aligned as one is; only __int128, long double and vectors ask for 16.
    const bool is_plain = type.kind == Kind::Integer || type.kind == Kind::Float;
    const uint64_t most = is_plain && type.language != Language::Go ? 16 : 8;
    const uint64_t unit = type.kind == Kind::Complex ? type.size / 2 : type.size;
    uint64_t natural = 1;
    while (natural * 2 <= std::min(unit, most)) natural *= 2;
    return type.size ? natural : 0;
  }

  const image::TypeLookup& resolve_;
  std::unordered_map<uint64_t, uint64_t> alignments_;
  std::unordered_map<uint64_t, uint64_t> data_ends_;
};

// Finds the holes while members come by in order of their offsets. Counts in bits.
class Occupancy {
 public:
  // The free run before `start`, if there is one.
  uint64_t gap_before(uint64_t start) const {
    // A member inside the previous one's extent reuses that one's padding: then only its data counts.
    const uint64_t taken = start < extent_ ? data_ : std::max(data_, extent_);
    return start > taken ? start - taken : 0;
  }
  void take(uint64_t data_end, uint64_t extent) {
    data_ = std::max(data_, data_end);
    extent_ = std::max(extent_, extent);
  }

 private:
  uint64_t data_ = 0;
  uint64_t extent_ = 0;
};

class Layouter {
 public:
  Layouter(const image::TypeLookup& resolve, int depth)
      : resolve_(resolve), measures_(resolve), depth_(depth) {}

  TypeLayout layout(TypeId id);

 private:
  struct Scope {
    uint64_t base_bits;  // of the record within the outermost object
    int level;           // of nesting
    int named_levels;    // still to be written out
    Language language;
  };

  void record_items(const Type& type, Scope scope, std::vector<Item>& out, TypeLayout* totals);
  void member_item(const Member& member, Scope scope, std::vector<Item>& out);
  void describe_base(const Member& member, Item& item);
  void describe_member(const Member& member, Scope scope, Item& item);
  void expand(TypeId type, bool is_anonymous, Scope scope, Item& item);
  void variant_items(const image::VariantPart& part, Scope scope, std::vector<Item>& out);
  void add_gap(Item::Kind kind, uint64_t at, uint64_t bits, std::vector<Item>& out);
  std::string type_text(TypeId id) const { return spell_type(id, resolve_); }

  const image::TypeLookup& resolve_;
  Measures measures_;
  int depth_;
  size_t item_count_ = 0;
  std::vector<uint64_t> open_;  // the types being written out, outermost first
};

void Layouter::add_gap(Item::Kind kind, uint64_t at, uint64_t bits, std::vector<Item>& out) {
  Item item{.kind = kind};
  item.bit_offset = at;
  item.bit_size = bits;
  out.push_back(std::move(item));
}

void Layouter::describe_base(const Member& member, Item& item) {
  item.kind = member.is_virtual_base ? Item::Kind::VirtualBase : Item::Kind::Base;
  item.text = type_text(member.type);
  if (item.text.empty()) item.text = member.name;
  item.name = item.text;
  if (member.is_virtual_base) item.bit_offset.reset();
  // An empty base takes no room, though an object of it would.
  if (measures_.data_end(member.type) == 0) item.bit_size = 0;
}

void Layouter::describe_member(const Member& member, Scope scope, Item& item) {
  if (is_vtable_pointer(member)) {
    item.kind = Item::Kind::VtablePointer;
    item.text = member.name;
    return;
  }
  if (member.bit_size) item.kind = Item::Kind::Bitfield;
  std::string name = member.name;
  if (scope.language == Language::Rust && is_tuple_field(member)) name = name.substr(2);
  if (member.is_embedded) {
    item.text = item.type;
    item.note = "embedded";
  } else if (scope.language == Language::Go) {
    item.text = name + " " + item.type;
  } else if (scope.language == Language::Rust) {
    item.text = name + ": " + item.type;
  } else {
    item.text = spell_declaration(member.type, name, resolve_);
  }
  if (member.bit_size) item.text += " : " + std::to_string(member.bit_size);
}

void Layouter::expand(TypeId id, bool is_anonymous, Scope scope, Item& item) {
  // The innermost record of arrays of it, too: its offsets are then those of the first element.
  TypeId inner = measures_.unalias(id);
  for (int i = 0; i < deepest && resolve_(inner).kind == Kind::Array; ++i) {
    inner = measures_.unalias(resolve_(inner).target);
  }
  const Type& type = resolve_(inner);
  const bool is_union_like = is_record(type) && !type.is_declaration;
  if (!is_union_like || (!is_anonymous && scope.named_levels <= 0)) return;
  if (scope.level >= deepest || std::ranges::find(open_, inner.value) != open_.end()) {
    item.note = "not written out: it lies inside itself";
    return;
  }
  const std::string inner_text = type_text(inner);
  const size_t at = item.text.rfind(inner_text);
  if (at != std::string::npos) {
    item.text_after = item.text.substr(at + inner_text.size());
    item.text.resize(at + inner_text.size());
    if (constexpr std::string_view braces = " {...}"; item.text.ends_with(braces)) {
      item.text.resize(item.text.size() - braces.size());
    }
  }
  item.is_expanded = true;
  scope.base_bits = item.bit_offset.value_or(0);
  ++scope.level;
  if (!is_anonymous) --scope.named_levels;
  open_.push_back(inner.value);
  record_items(type, scope, item.items, nullptr);
  open_.pop_back();
}

void Layouter::member_item(const Member& member, Scope scope, std::vector<Item>& out) {
  Item item;
  item.name = member.name;
  item.type = type_text(member.type);
  if (member.is_static) {
    item.kind = Item::Kind::Static;
    item.text = spell_declaration(member.type, member.name, resolve_);
    out.push_back(std::move(item));
    return;
  }
  item.bit_offset = scope.base_bits + (member.bit_size ? member.bit_offset : member.offset * 8);
  item.bit_size = member.bit_size ? member.bit_size : measures_.size(member.type) * 8;
  if (member.is_base) {
    describe_base(member, item);
  } else {
    describe_member(member, scope, item);
  }
  if (!member.is_virtual_base && item.kind != Item::Kind::VtablePointer) {
    const bool is_anonymous = item.type.find("{...}") != std::string::npos && !member.is_base;
    expand(member.type, is_anonymous, scope, item);
  }
  out.push_back(std::move(item));
}

void Layouter::variant_items(const image::VariantPart& part, Scope scope, std::vector<Item>& out) {
  if (part.discriminant) {
    Item item{.kind = Item::Kind::Discriminant};
    item.type = item.text = type_text(part.discriminant->type);
    item.bit_offset = scope.base_bits + part.discriminant->offset * 8;
    item.bit_size = measures_.size(part.discriminant->type) * 8;
    out.push_back(std::move(item));
  }
  for (const auto& variant : part.variants) {
    if (++item_count_ > most_items) return;
    Item item{.kind = Item::Kind::Variant, .name = variant.name, .text = variant.name};
    std::string values;
    for (uint64_t value : variant.discriminants)
      values += (values.empty() ? "= " : " | ") + number_text(value);
    for (auto [low, high] : variant.ranges) {
      values += (values.empty() ? "= " : " | ") + number_text(low) + "..=" + number_text(high);
    }
    item.note = !values.empty() ? values : part.discriminant ? "= any other value" : "";
    const Type& body = resolve_(measures_.unalias(variant.type));
    Scope inner = scope;
    inner.base_bits += variant.offset * 8;
    ++inner.level;
    if (inner.level < deepest) {
      for (const Member& member : body.members) {
        if (++item_count_ > most_items) break;
        member_item(member, inner, item.items);
      }
    }
    item.is_expanded = !item.items.empty();
    item.is_tuple = std::ranges::all_of(body.members, is_tuple_field);
    if (item.is_tuple) {
      for (Item& field : item.items) field.text = field.type;
    }
    out.push_back(std::move(item));
  }
}

void Layouter::record_items(const Type& type, Scope scope, std::vector<Item>& out, TypeLayout* totals) {
  std::vector<const Member*> members;
  for (const Member& member : type.members) members.push_back(&member);
  const auto start = [](const Member* m) { return m->bit_size ? m->bit_offset : m->offset * 8; };
  const auto rank = [&](const Member* m) { return m->is_static ? 2 : m->is_virtual_base ? 1 : 0; };
  std::ranges::stable_sort(members, [&](const Member* a, const Member* b) {
    return std::pair(rank(a), rank(a) ? 0 : start(a)) < std::pair(rank(b), rank(b) ? 0 : start(b));
  });

  const bool has_holes = type.kind != Kind::Union && type.variant_parts.empty();
  bool has_virtual_base = false;
  Occupancy occupancy;
  const auto note_gap = [&](Item::Kind kind, uint64_t end) {
    const uint64_t bits = has_holes ? occupancy.gap_before(end) : 0;
    if (bits == 0) return;
    add_gap(kind, scope.base_bits + end - bits, bits, out);
    if (totals && kind == Item::Kind::Hole) ++totals->holes, totals->hole_bits += bits;
    if (totals && kind == Item::Kind::Padding) totals->padding_bits += bits;
  };
  bool tail_is_noted = false;
  const auto note_tail = [&] {
    if (std::exchange(tail_is_noted, true) || type.size == 0) return;
    // An empty C++ class has a size of 1 so that its objects differ; that is no padding.
    if (type.members.empty() && type.size == 1) return;
    note_gap(has_virtual_base ? Item::Kind::VirtualArea : Item::Kind::Padding, type.size * 8);
  };

  for (const Member* member : members) {
    if (++item_count_ > most_items) {
      out.push_back({.kind = Item::Kind::Cut, .text = "more members than are shown"});
      return;
    }
    has_virtual_base |= member->is_virtual_base;
    if (rank(member) == 0) {
      note_gap(Item::Kind::Hole, start(member));
      const uint64_t bits = member->bit_size ? member->bit_size : measures_.size(member->type) * 8;
      const uint64_t data = member->bit_size ? bits : measures_.data_end(member->type) * 8;
      const bool is_empty = data == 0;
      occupancy.take(start(member) + data, start(member) + (is_empty ? 0 : bits));
    } else if (member->is_static) {
      note_tail();
    }
    member_item(*member, scope, out);
  }
  for (const auto& part : type.variant_parts) variant_items(part, scope, out);
  note_tail();
}

std::string keyword_of(const Type& type) {
  switch (type.kind) {
    case Kind::Union:
      return "union";
    case Kind::Class:
      return "class";
    case Kind::Enum:
      return type.is_enum_class && type.language == Language::Cpp ? "enum class" : "enum";
    default:
      break;
  }
  if (!is_record(type)) return "";
  return type.variant_parts.empty() ? "struct" : "enum";
}

// The name as the command's user would look it up: in full, though without compilers' long defaults.
std::string title_of(const Type& type, const std::string& spelled) {
  const std::string& full = type.qualified.empty() ? type.name : type.qualified;
  if (full.empty()) return "";
  switch (type.language) {
    case Language::Cpp:
      return short_cpp_name(full);
    case Language::Rust:
      return spelled;
    default:
      return full;
  }
}

TypeLayout Layouter::layout(TypeId id) {
  const Type& named = resolve_(id);
  TypeLayout out;
  out.name = title_of(named, type_text(id));
  out.language = language_of(id, resolve_);
  out.decl_file = named.decl_file;
  out.decl_line = named.decl_line;
  out.size = measures_.size(id);
  // Go, and std::string, have aliases that are called as what they stand for.
  if (is_alias(named.kind) && type_text(named.target) != type_text(id)) {
    out.alias_of = type_text(named.target);
    out.alias_declaration = spell_declaration(named.target, out.name, resolve_);
  }
  const TypeId inner = measures_.unalias(id);
  const Type& type = resolve_(inner);
  out.keyword = keyword_of(type);
  out.is_incomplete = type.is_declaration;
  out.alignment = measures_.alignment(id);
  if (type.kind == Kind::Enum) {
    if (type.target) out.underlying = type_text(type.target);
    for (const auto& e : type.enumerators) {
      if (++item_count_ > most_items) break;
      Item item{.kind = Item::Kind::Enumerator, .name = e.name, .text = e.name};
      item.value = e.value;
      out.items.push_back(std::move(item));
    }
    return out;
  }
  if (!is_record(type)) return out;
  for (const Member& member : type.members) {
    if (!member.is_base) continue;
    out.bases += (out.bases.empty() ? "" : ", ") + std::string(member.is_virtual_base ? "virtual " : "") +
                 type_text(member.type);
  }
  const auto misplaced = [&](const Member& member) {
    if (member.is_static || member.is_virtual_base || member.bit_size) return false;
    const uint64_t natural = measures_.alignment(member.type);
    return natural > 1 && (member.offset % natural != 0 || type.size % natural != 0);
  };
  out.is_packed = type.kind != Kind::Union && std::ranges::any_of(type.members, misplaced);
  open_.push_back(inner.value);
  record_items(type, {0, 0, depth_, out.language}, out.items, &out);
  return out;
}

}  // namespace

TypeLayout layout_type(TypeId id, const image::TypeLookup& resolve, int depth) {
  return Layouter(resolve, std::clamp(depth, 0, deepest)).layout(id);
}

uint64_t alignment_of(TypeId id, const image::TypeLookup& resolve) { return Measures(resolve).alignment(id); }

}  // namespace uscope::symbols
