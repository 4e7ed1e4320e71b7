#include "session/same_types.h"

#include <algorithm>

namespace uscope::session {
namespace {

using image::Enumerator;
using image::Member;
using image::Type;
using image::TypeId;
using Kind = image::Type::Kind;

constexpr int deepest_alias = 32;
// Types that lead to more are taken for different: that may refuse a script, but shows nothing wrong.
constexpr size_t most_pairs = 20'000;

Kind plain_kind(Kind kind) { return kind == Kind::Class ? Kind::Struct : kind; }

NamedType without_aliases(NamedType at) {
  for (int i = 0; at.type && i < deepest_alias; ++i) {
    const Type& type = at.table->type(at.type);
    if (!image::is_alias(type.kind)) break;
    at.type = type.target;
  }
  return at;
}

const std::string& name_of(const Type& type) { return type.qualified.empty() ? type.name : type.qualified; }

bool has_place(const Member& member) { return !member.is_static; }

bool alike_member(const Member& x, const Member& y) {
  return x.name == y.name && x.offset == y.offset && x.bit_size == y.bit_size &&
         x.bit_offset == y.bit_offset && x.is_base == y.is_base && x.is_virtual_base == y.is_virtual_base &&
         x.is_embedded == y.is_embedded;
}

bool alike_enumerators(const Type& x, const Type& y) {
  return std::ranges::equal(x.enumerators, y.enumerators, [](const Enumerator& a, const Enumerator& b) {
    return a.name == b.name && a.value == b.value;
  });
}

}  // namespace

void SameTypes::also(const NamedType& a, TypeId of_a, const NamedType& b, TypeId of_b) {
  waiting_.push_back({{a.table, of_a}, {b.table, of_b}});
}

bool SameTypes::alike_members(const NamedType& a, const Type& x, const NamedType& b, const Type& y) {
  std::vector<const Member*> mine, others;
  for (const Member& member : x.members)
    if (has_place(member)) mine.push_back(&member);
  for (const Member& member : y.members)
    if (has_place(member)) others.push_back(&member);
  auto same_member = [](const Member* m, const Member* n) { return alike_member(*m, *n); };
  if (!std::ranges::equal(mine, others, same_member)) return false;
  for (size_t i = 0; i < mine.size(); ++i) also(a, mine[i]->type, b, others[i]->type);
  return true;
}

bool SameTypes::alike(NamedType a, NamedType b) {
  a = without_aliases(a);
  b = without_aliases(b);
  if (!a.type || !b.type) return !a.type && !b.type;
  const Type* x = &a.table->type(a.type);
  const Type* y = &b.table->type(b.type);
  if (x->is_declaration || y->is_declaration) {
    // Declared by both, it has the same definition, if it has one. The look for that one reads every unit.
    if (x->is_declaration && y->is_declaration && a.table == b.table) return name_of(*x) == name_of(*y);
    a.type = a.table->definition_of(a.type);
    b.type = b.table->definition_of(b.type);
    x = &a.table->type(a.type);
    y = &b.table->type(b.type);
  }
  if (a.table == b.table && a.type == b.type) return true;
  Pair pair{a.table, a.type.value, b.table, b.type.value};
  if (proven_.contains(pair) || !seen_.insert(pair).second) return true;
  bool alike_outside = plain_kind(x->kind) == plain_kind(y->kind) && x->size == y->size &&
                       x->is_signed == y->is_signed && x->is_declaration == y->is_declaration;
  if (!alike_outside) return false;
  switch (x->kind) {
    // What the compilers call a number says nothing, but an array of `char` is text.
    case Kind::Integer:
    case Kind::Character:
      return (x->name == "char") == (y->name == "char");
    case Kind::Float:
      return x->name.starts_with("_Decimal") == y->name.starts_with("_Decimal");
    case Kind::Enum:
      return name_of(*x) == name_of(*y) && alike_enumerators(*x, *y);
    case Kind::Pointer:
    case Kind::Reference:
    case Kind::RvalueReference:
      also(a, x->target, b, y->target);
      return true;
    case Kind::Array:
      also(a, x->target, b, y->target);
      return x->dimensions == y->dimensions;
    case Kind::Struct:
    case Kind::Class:
    case Kind::Union:
    case Kind::GoString:
    case Kind::GoSlice:
    case Kind::GoInterface:
      return name_of(*x) == name_of(*y) && alike_members(a, *x, b, *y);
    default:
      return true;
  }
}

bool SameTypes::same(const NamedType& a, const NamedType& b) {
  if (a.table == b.table && a.type == b.type) return true;
  seen_.clear();
  waiting_ = {{a, b}};
  size_t compared = 0;
  while (!waiting_.empty()) {
    auto [one, other] = waiting_.back();
    waiting_.pop_back();
    // A type that leads back to itself is the same as long as nothing else differs.
    if (++compared > most_pairs || !alike(one, other)) return false;
  }
  proven_.merge(seen_);
  return true;
}

}  // namespace uscope::session
