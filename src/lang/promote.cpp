#include "lang/promote.h"

#include <algorithm>

namespace uscope::lang {
namespace {

std::optional<Type> merge_fields(const Type& held, const Type& incoming, const Expr* value) {
  if (held.fields().size() != incoming.fields().size()) return std::nullopt;
  std::vector<Type> types;
  std::vector<std::pair<std::string, Type>> named;
  for (size_t i = 0; i < held.fields().size(); ++i) {
    const TypeField& a = held.fields()[i];
    // Records match by name, in any order; a tuple's fields are named by their number.
    auto b = std::ranges::find(incoming.fields(), a.name, &TypeField::name);
    if (b == incoming.fields().end()) return std::nullopt;
    size_t at = static_cast<size_t>(b - incoming.fields().begin());
    const Expr* part = nullptr;
    if (const auto* tuple = value ? value->as<Tuple>() : nullptr) part = tuple->elements[at].get();
    if (const auto* record = value ? value->as<Record>() : nullptr) part = record->fields[at].value.get();
    auto both = merge(a.type, b->type, part);
    if (!both) return std::nullopt;
    types.push_back(*both);
    named.emplace_back(a.name, *both);
  }
  return held.is(TypeKind::kTuple) ? Type::tuple(types) : Type::record(std::move(named));
}

std::optional<Type> merge_integers(const Type& held, const Type& incoming, const IntLiteral* literal) {
  if (held.is_signed() == incoming.is_signed()) return held.size() >= incoming.size() ? held : incoming;
  if (literal != nullptr && !literal->negative && !held.is_signed()) {
    // A literal that is not negative takes the sign of what holds it.
    unsigned bits = 8;
    while (bits < 64 && literal->value >> bits != 0) bits *= 2;
    return Type::integer(std::max<unsigned>(bits, static_cast<unsigned>(held.size() * 8)), false);
  }
  const Type& with = held.is_signed() ? held : incoming;
  const Type& without = held.is_signed() ? incoming : held;
  if (without.size() < with.size()) return with;
  if (without.size() == 8) return Type::int64();  // whoever asked warns
  return Type::integer(static_cast<unsigned>(without.size() * 16), true);
}

const IntLiteral* plain_literal(const Expr& expr) { return expr.as<IntLiteral>(); }

}  // namespace

Type literal_type(const IntLiteral& literal) {
  if (!literal.negative && literal.value > INT64_MAX) return Type::uint64();
  auto value = static_cast<int64_t>(literal.value);
  for (unsigned bits : {8u, 16u, 32u}) {
    int64_t limit = int64_t{1} << (bits - 1);
    if (value >= -limit && value < limit) return Type::integer(bits, true);
  }
  return Type::int64();
}

std::optional<Type> merge(const Type& held, const Type& incoming, const Expr* value) {
  if (!held.known()) return incoming;
  if (!incoming.known() || held == incoming) return held;
  if (held.is(TypeKind::kEnum) && incoming.is(TypeKind::kEnum) && held.name() == incoming.name()) return held;
  auto plain = [](const Type& type) {
    return type.is(TypeKind::kEnum) ? Type::integer(static_cast<unsigned>(type.size() * 8), type.is_signed())
                                    : type;
  };
  if (held.is_integer() && incoming.is_integer()) {
    return merge_integers(plain(held), plain(incoming), value ? value->as<IntLiteral>() : nullptr);
  }
  if (held.kind() != incoming.kind()) {
    // An address is an address, whether debug info says what lies there (retval) or nothing does (arg0).
    bool is_mixed = (held.is(TypeKind::kPointer) && incoming.is(TypeKind::kInt)) ||
                    (held.is(TypeKind::kInt) && incoming.is(TypeKind::kPointer));
    if (is_mixed)
      return held.is(TypeKind::kPointer) && value && value->as<IntLiteral>() ? held : Type::uint64();
    if (held.is(TypeKind::kFloat) && incoming.is_integer()) return held;
    return std::nullopt;
  }
  switch (held.kind()) {
    case TypeKind::kString:
    case TypeKind::kBuffer:
    case TypeKind::kFloat:
    case TypeKind::kInet:
    case TypeKind::kUserStack:
    case TypeKind::kKernelStack:
      return held.size() >= incoming.size() ? held : incoming;
    case TypeKind::kTuple:
    case TypeKind::kRecord:
      return merge_fields(held, incoming, value);
    case TypeKind::kPointer:
      if (held.pointee() == incoming.pointee()) return held;
      if (held.pointee().is(TypeKind::kVoid)) return incoming;
      return held;
    case TypeKind::kArray:
    case TypeKind::kStruct:
    case TypeKind::kEnum:
    case TypeKind::kInt:
      return std::nullopt;
    default:
      // Aggregates and opaque values have no sizes to differ in; one negative number makes all signed.
      return held.is_aggregate() && incoming.is_signed() ? incoming : held;
  }
}

bool fits(const Type& into, const Type& type, const Expr* value) {
  if (into.is(TypeKind::kString) && into.size() == 0) return type.is(TypeKind::kString);
  if (into.is(TypeKind::kString) && type.is(TypeKind::kString)) return type.size() <= into.size();
  if (into.is(TypeKind::kPointer) != type.is(TypeKind::kPointer)) return false;
  auto both = merge(into, type, value);
  return both && *both == into;
}

Type common_integer(const Expr& left, const Expr& right, BinaryOp op) {
  bool a = left.type.is_signed(), b = right.type.is_signed();
  if (left.type.is(TypeKind::kBool)) a = b;
  if (right.type.is(TypeKind::kBool)) b = a;
  if (a == b) return Type::integer(64, a);
  // A literal that is not negative goes along with the unsigned side, unless the result may well be negative.
  const IntLiteral* literal = a ? plain_literal(left) : plain_literal(right);
  if (literal && !literal->negative && op != BinaryOp::kSubtract) return Type::uint64();
  return Type::int64();
}

}  // namespace uscope::lang
