// Scalars: literals, variables, operators of one operand, and the choice between two expressions.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"
#include "lang/functions.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

void CodeGenerator::scalar(const Expr& expr) {
  if (load_simple(R0, expr)) return;
  if (expr.type.is(TypeKind::kFloat))
    return unit_.problem(expr.span, "a floating-point number cannot be used here; cast it to an integer");
  if (const auto* node = expr.as<lang::Builtin>()) return builtin(expr, node->name);
  if (const auto* node = expr.as<lang::MapAccess>()) return read_map(expr, *node);
  if (const auto* node = expr.as<lang::Unary>()) return unary(expr, *node);
  if (const auto* node = expr.as<lang::Increment>()) return increment(expr, *node);
  if (const auto* node = expr.as<lang::Binary>()) return binary(expr, *node);
  if (const auto* node = expr.as<lang::Cast>()) return cast(expr, *node);
  if (const auto* node = expr.as<lang::Call>()) return call(expr, *node);
  if (const auto* node = expr.as<lang::Comptime>()) return scalar(*node->operand);
  if (is_choice(expr)) return choose(expr, [&](const Expr& taken) { scalar(taken); });
  if (const auto* node = expr.as<lang::Field>()) {
    lang::TypeField found;
    const lang::TypeField* field = find_field(node->object->type, node->name, found);
    Located located = locate(expr);
    reading_ = lang::join(node->object->span, expr.span);  // without the parentheses around the object
    return load_located(located, expr.type, field ? field->bit_offset : 0, field ? field->bit_width : 0);
  }
  if (expr.as<lang::Index>() || expr.as<lang::TupleIndex>()) {
    Located located = locate(expr);
    reading_ = expr.span;
    return load_located(located, expr.type, 0, 0);
  }
  unsupported(expr.span, "this expression");
}

void CodeGenerator::scalar_as(const Expr& expr, const Type& type) {
  scalar(expr);
  cut(expr.type, type);
}

void CodeGenerator::cut(const Type& from, const Type& to) {
  Type source = plain_type(from);
  bool fits = source.is_scalar() && source.size() <= to.size() &&
              (source.is_signed() == to.is_signed() || (!source.is_signed() && source.size() < to.size()));
  if (!fits) extend(R0, to);
}

// What one or two instructions put into any register without touching another.
bool CodeGenerator::load_simple(Reg dst, const Expr& expr) {
  if (const auto* node = expr.as<lang::IntLiteral>()) {
    asm_.mov(dst, int64_t(node->value));
    return true;
  }
  if (const auto* node = expr.as<lang::BoolLiteral>()) {
    asm_.mov(dst, node->value ? 1 : 0);
    return true;
  }
  if (const auto* node = expr.as<lang::Variable>(); node && expr.type.is_scalar()) {
    const Scope& scope = scopes_.back();
    if (node->slot >= scope.slots.size()) return false;
    load_slot(dst, scope.slots[node->slot]);
    return true;
  }
  return false;
}

void CodeGenerator::unary(const Expr& expr, const lang::Unary& node) {
  switch (node.op) {
    case lang::UnaryOp::kNegate:
      scalar(*node.operand);
      asm_.neg(R0);
      return extend(R0, expr.type);
    case lang::UnaryOp::kBitNot:
      scalar(*node.operand);
      asm_.alu(Alu::Xor, R0, -1);
      return extend(R0, expr.type);
    case lang::UnaryOp::kNot: {
      Label is_false = asm_.label(), done = asm_.label();
      condition(*node.operand, is_false);
      asm_.mov(R0, 0);
      asm_.jump(done);
      asm_.bind(is_false);
      asm_.mov(R0, 1);
      asm_.bind(done);
      return;
    }
    case lang::UnaryOp::kDereference: {
      Located located = locate(expr);
      reading_ = expr.span;
      return load_located(located, expr.type, 0, 0);
    }
    case lang::UnaryOp::kAddressOf:
      return address_of(expr, *node.operand);
  }
}

// A number for whoever looks at it: the verifier forgets what a register points to when it has been in memory
// that is not the stack.
void CodeGenerator::address_of(const Expr& expr, const Expr& operand) {
  if (const auto* access = operand.as<lang::MapAccess>()) return entry_address(expr, *access);
  address(R0, place_of(operand));
  Place number = frame_.allocate_scratch(8);
  store_slot(number, R0);
  load_slot(R0, number);
}

// Null where there is no such entry.
void CodeGenerator::entry_address(const Expr& expr, const lang::MapAccess& access) {
  const Unit::ScriptMap& map = unit_.script_map(access.name);
  if (map.info->value.is_aggregate())
    return unsupported(expr.span, "the address of a " + map.info->value.spell());
  Place number = frame_.allocate_scratch(8);
  Label none = asm_.label(), done = asm_.label();
  lookup(map, map_key(map, access.key.get()));
  asm_.jump_if(Cond::Eq, R0, 0, none);
  store_slot(number, R0);
  load_slot(R0, number);
  asm_.jump(done);
  asm_.bind(none);
  report_missing_entry(expr.span);
  asm_.mov(R0, 0);
  asm_.bind(done);
}

void CodeGenerator::increment(const Expr& expr, const lang::Increment& node) {
  if (const auto* access = node.target->as<lang::MapAccess>()) return increment_map(expr, node, *access);
  const auto* variable = node.target->as<lang::Variable>();
  const Scope& scope = scopes_.back();
  if (!variable || variable->slot >= scope.slots.size()) return unsupported(expr.span, "this increment");
  const Type& type = (*scope.variables)[variable->slot].type;
  Place place = scope.slots[variable->slot];
  int64_t step = type.is(TypeKind::kPointer) ? int64_t(std::max<uint64_t>(user_size(type.pointee()), 1)) : 1;
  if (step > INT32_MAX) return unsupported(expr.span, "a pointer to so large a type");
  load_slot(R0, place);
  asm_.mov(R1, R0);
  asm_.alu(Alu::Add, R1, int32_t(node.down ? -step : step));
  extend(R1, type);
  store_slot(place, R1);
  if (node.prefix) asm_.mov(R0, R1);
}

void CodeGenerator::cast(const Expr& expr, const lang::Cast& node) {
  const Type& from = node.operand->type;
  const Type& to = expr.type;
  if (from.is(TypeKind::kFloat)) {
    if (to.is(TypeKind::kBool)) {
      Label is_false = asm_.label();
      condition(*node.operand, is_false);
      asm_.mov(R0, 1);
      Label known = asm_.label();
      asm_.jump(known);
      asm_.bind(is_false);
      asm_.mov(R0, 0);
      return asm_.bind(known);
    }
    real(*node.operand);
    double_to_int();
    return extend(R0, to);
  }
  if (from.is(TypeKind::kString) && to.is(TypeKind::kBool)) {
    Place text = place_of(*node.operand);
    asm_.load(Width::B1, R0, text.base, text.offset);
  } else if (from.is(TypeKind::kArray)) {
    Located located = locate(*node.operand);
    if (to.is(TypeKind::kPointer)) {
      if (!located.is_outside) return unsupported(expr.span, "the address of this array");
      return user_address(located);
    }
    load_located(located, Type::integer(unsigned(from.size() * 8), false), 0, 0);
  } else {
    scalar(*node.operand);
  }
  if (!to.is(TypeKind::kBool)) return cut(from, to);
  Label done = asm_.label();
  asm_.jump_if(Cond::Eq, R0, 0, done);
  asm_.mov(R0, 1);
  asm_.bind(done);
}

// An expression whose value nobody wants.
void CodeGenerator::discard(const Expr& expr) {
  Temporaries temporaries(frame_);
  if (is_choice(expr)) return choose(expr, [&](const Expr& taken) { discard(taken); });
  if (const auto* node = expr.as<lang::Call>()) return call(expr, *node);
  if (expr.type.is_scalar() || expr.type.casts_to_integer()) return scalar(expr);
  if (const auto* builtin = expr.as<lang::Builtin>(); builtin && !expr.type.known()) return;
  if (expr.type.is(TypeKind::kVoid)) return unsupported(expr.span, "this statement");
  if (expr.type.is_aggregate()) return;
  place_of(expr);
}

bool CodeGenerator::is_choice(const Expr& expr) const {
  return expr.as<lang::Ternary>() || expr.as<lang::If>() || expr.as<lang::BlockExpr>();
}

// Runs what leads to the value, then `take` with the expression that has it.
void CodeGenerator::choose(const Expr& expr, const std::function<void(const Expr&)>& take) {
  auto take_block = [&](const lang::Block& body) {
    statements(body);
    if (body.value) take(*body.value);
  };
  if (const auto* node = expr.as<lang::BlockExpr>()) {
    if (node->is_expansion) expansions_.push_back(expr.span);
    take_block(node->block);
    if (node->is_expansion) expansions_.pop_back();
    return;
  }
  Label otherwise = asm_.label(), done = asm_.label();
  if (const auto* node = expr.as<lang::Ternary>()) {
    condition(*node->condition, otherwise);
    take(node->then ? *node->then : *node->condition);
    asm_.jump(done);
    asm_.bind(otherwise);
    take(*node->otherwise);
    asm_.bind(done);
    return;
  }
  const auto* node = expr.as<lang::If>();
  condition(*node->condition, otherwise);
  take_block(node->then);
  asm_.jump(done);
  asm_.bind(otherwise);
  if (node->otherwise) {
    if (is_choice(*node->otherwise))
      choose(*node->otherwise, take);
    else
      take(*node->otherwise);
  }
  asm_.bind(done);
}

}  // namespace uscope::codegen
