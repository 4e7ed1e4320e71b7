// Values in memory: strings, tuples, structs, and scalars that are to be stored.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

bool has_fields(const lang::Type& type) { return type.is(TypeKind::kTuple) || type.is(TypeKind::kRecord); }

}  // namespace

// The value of `expr`, as a `want`, into memory of its size.
void CodeGenerator::store(const Expr& expr, const Type& want, Place to) {
  if (const auto* node = expr.as<lang::Comptime>()) return store(*node->operand, want, to);
  if (is_choice(expr)) return choose(expr, [&](const Expr& taken) { store(taken, want, to); });
  Temporaries temporaries(frame_);
  if (want.is_scalar()) {
    scalar(expr);
    asm_.store(width_of(want.size()), to.base, to.offset, R0);
    return;
  }
  bool is_computed = expr.as<lang::FloatLiteral>() || expr.as<lang::Binary>() || expr.as<lang::Cast>() ||
                     expr.as<lang::Increment>() ||
                     (expr.as<lang::Unary>() && expr.as<lang::Unary>()->op == lang::UnaryOp::kNegate);
  if (want.is(TypeKind::kFloat) && want.size() != 4 && want.size() != 8 && !expr.as<lang::Builtin>())
    return unit_.problem(expr.span,
                         fmt::format("a floating-point number of {} bytes cannot be shown", want.size()));
  if (want.is(TypeKind::kFloat) && (is_computed || !(expr.type == want))) return store_real(expr, want, to);
  if (const auto* node = expr.as<lang::StringLiteral>(); node && want.is(TypeKind::kString))
    return store_text(to, node->value, size_of(want));
  if (const auto* node = expr.as<lang::Tuple>(); node && has_fields(want)) {
    std::vector<const Expr*> parts;
    for (const auto& element : node->elements) parts.push_back(element.get());
    return store_fields(parts, want, to);
  }
  if (const auto* node = expr.as<lang::Record>(); node && has_fields(want)) {
    return store_record(*node, want, to);
  }
  if (const auto* node = expr.as<lang::Call>()) return store_call(expr, *node, want, to);
  if (const auto* node = expr.as<lang::Builtin>()) return store_builtin(expr, node->name, to, want);
  if (const auto* node = expr.as<lang::MapAccess>()) return store_map_value(expr, *node, to, want);
  if (const auto* node = expr.as<lang::Cast>()) {
    if (want.is(TypeKind::kArray) && node->operand->type.is_scalar()) {
      scalar(*node->operand);
      Place whole = keep(R0);
      return copy(to, whole, std::min<uint64_t>(8, size_of(want)));
    }
    if (want.is(TypeKind::kString) && node->operand->type.is(TypeKind::kString))
      return store(*node->operand, want, to);
    if (want == node->operand->type) return store(*node->operand, want, to);
    return unsupported(expr.span, fmt::format("a cast to {}", want.spell()));
  }
  bool is_located = expr.as<lang::Variable>() || expr.as<lang::Field>() || expr.as<lang::Index>() ||
                    expr.as<lang::TupleIndex>() || expr.as<lang::Unary>();
  if (!is_located) return unsupported(expr.span, "a value of type " + expr.type.spell() + " here");
  Located located = locate(expr);
  reading_ = expr.span;
  store_located(located, expr.type, to, want);
}

void CodeGenerator::store_fields(const std::vector<const Expr*>& parts, const Type& want, Place to) {
  if (parts.size() != want.fields().size()) return;
  if (has_padding(want)) clear(to, size_of(want));
  auto offsets = field_offsets(want);
  for (size_t i = 0; i < parts.size(); i++) store(*parts[i], want.fields()[i].type, to.at(offsets[i]));
}

// In the order written, each to the field of its name.
void CodeGenerator::store_record(const lang::Record& node, const Type& want, Place to) {
  if (has_padding(want)) clear(to, size_of(want));
  auto offsets = field_offsets(want);
  for (const lang::RecordField& part : node.fields)
    for (size_t i = 0; i < offsets.size(); i++)
      if (want.fields()[i].name == part.name) store(*part.value, want.fields()[i].type, to.at(offsets[i]));
}

// Memory that holds the value; what is there already is not copied.
Place CodeGenerator::place_of(const Expr& expr) {
  if (const auto* node = expr.as<lang::Variable>()) {
    const Scope& scope = scopes_.back();
    if (node->slot < scope.slots.size()) return scope.slots[node->slot];
  }
  if (expr.as<lang::TupleIndex>()) {
    Located located = locate(expr);
    if (!located.is_outside) return located.place.at(located.offset);
  }
  Type type = plain_type(expr.type);
  uint64_t size = size_of(type);
  if (size == 0) unsupported(expr.span, "a value of type " + expr.type.spell() + " here");
  Place place = frame_.allocate(size);
  store(expr, type, place);
  return place;
}

// From one type's memory to another's: numbers grow, strings are padded or cut, fields one by one.
void CodeGenerator::convert(Place from, const Type& type, Place to, const Type& want) {
  if (type == want) return copy(to, from, size_of(want));
  if (want.is_scalar() && type.is_scalar()) {
    load_scalar(R1, from, type);
    asm_.store(width_of(want.size()), to.base, to.offset, R1);
    return;
  }
  if (want.is(TypeKind::kString) && type.is(TypeKind::kString)) {
    uint64_t have = size_of(type), need = size_of(want);
    if (have < need) clear(to, need);
    copy(to, from, std::min(have, need));
    if (have > need) asm_.store(Width::B1, to.base, to.offset + int32_t(need) - 1, 0);
    return;
  }
  if (has_fields(want) && has_fields(type) && want.fields().size() == type.fields().size()) {
    if (has_padding(want)) clear(to, size_of(want));
    auto source = field_offsets(type), target = field_offsets(want);
    for (size_t i = 0; i < source.size(); i++) {
      const lang::TypeField& field = type.fields()[i];
      size_t into = 0;  // fields of records may come in another order
      while (into < target.size() && want.fields()[into].name != field.name) into++;
      if (into < target.size())
        convert(from.at(source[i]), field.type, to.at(target[into]), want.fields()[into].type);
    }
    return;
  }
  if (want.is(TypeKind::kFloat) && want.size() == 8 && type.is(TypeKind::kFloat) && type.size() == 4) {
    asm_.load(Width::B4, R0, from.base, from.offset);
    float_to_double();
    asm_.store(Width::B8, to.base, to.offset, R0);
    return;
  }
  if (want.kind() == type.kind() && size_of(want) >= size_of(type) && !want.is(TypeKind::kFloat)) {
    if (size_of(want) > size_of(type)) clear(to, size_of(want));
    return copy(to, from, size_of(type));
  }
  unit_.problem(site_.probe->span,
                fmt::format("{} where {} is wanted is not supported yet", type.spell(), want.spell()));
}

CodeGenerator::Located CodeGenerator::locate(const Expr& expr) {
  if (const auto* node = expr.as<lang::Unary>(); node && node->op == lang::UnaryOp::kDereference) {
    scalar(*node->operand);
    return outside(node->operand->type.address_space() == lang::AddressSpace::kKernel, 0);
  }
  if (const auto* node = expr.as<lang::Field>()) return locate_field(expr, *node);
  if (const auto* node = expr.as<lang::Index>()) return locate_index(expr, *node);
  if (const auto* node = expr.as<lang::TupleIndex>()) {
    auto offsets = field_offsets(node->object->type);
    Place object = place_of(*node->object);
    return ours(object, node->index < offsets.size() ? offsets[node->index] : 0);
  }
  const auto* builtin = expr.as<lang::Builtin>();
  if (builtin && builtin->name == "retval" && !expr.type.is_scalar()) return locate_result(expr);
  return ours(place_of(expr));
}

}  // namespace uscope::codegen
