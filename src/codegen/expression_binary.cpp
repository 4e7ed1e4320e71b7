// Operators of two operands, and conditions.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"
#include "lang/promote.h"

namespace uscope::codegen {

using enum Reg;
using lang::BinaryOp;
using lang::TypeKind;

namespace {

bool is_comparison(BinaryOp op) { return op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterEqual; }

// C's rules of promotion decide whether a comparison looks at the sign.
bool compares_signed(const lang::Binary& node) {
  lang::Type left = plain_type(node.left->type), right = plain_type(node.right->type);
  if (left.is(TypeKind::kPointer) || right.is(TypeKind::kPointer)) return false;
  if (left.is_signed() == right.is_signed()) return left.is_signed();
  return lang::common_integer(*node.left, *node.right, node.op).is_signed();
}

}  // namespace

Cond CodeGenerator::condition_of(BinaryOp op, bool is_signed) {
  switch (op) {
    case BinaryOp::kEqual:
      return Cond::Eq;
    case BinaryOp::kNotEqual:
      return Cond::Ne;
    case BinaryOp::kLess:
      return is_signed ? Cond::SLt : Cond::Lt;
    case BinaryOp::kLessEqual:
      return is_signed ? Cond::SLe : Cond::Le;
    case BinaryOp::kGreater:
      return is_signed ? Cond::SGt : Cond::Gt;
    default:
      return is_signed ? Cond::SGe : Cond::Ge;
  }
}

namespace {

bool is_number(const lang::Type& type) { return type.is_scalar() || type.casts_to_integer(); }

}  // namespace

void CodeGenerator::condition(const Expr& expr, Label if_false) {
  Temporaries temporaries(frame_);
  if (const auto* node = expr.as<lang::Binary>()) {
    if (node->op == BinaryOp::kAnd) {
      condition(*node->left, if_false);
      condition(*node->right, if_false);
      return;
    }
    if (node->op == BinaryOp::kOr) {
      Label second = asm_.label(), is_true = asm_.label();
      condition(*node->left, second);
      asm_.jump(is_true);
      asm_.bind(second);
      condition(*node->right, if_false);
      asm_.bind(is_true);
      return;
    }
    if (is_comparison(node->op)) return compare(*node, if_false);
  }
  if (const auto* node = expr.as<lang::Unary>(); node && node->op == lang::UnaryOp::kNot) {
    Label is_false = asm_.label();
    condition(*node->operand, is_false);
    asm_.jump(if_false);
    asm_.bind(is_false);
    return;
  }
  if (expr.type.is(TypeKind::kString)) {
    Place text = place_of(expr);
    asm_.load(Width::B1, R0, text.base, text.offset);
  } else if (expr.type.is(TypeKind::kFloat)) {
    real(expr);
    asm_.alu(Alu::Lsh, R0, 1);  // both zeroes are false
  } else if (is_number(expr.type)) {
    scalar(expr);
  } else {
    return unsupported(expr.span, "a condition of type " + expr.type.spell());
  }
  asm_.jump_if(Cond::Eq, R0, 0, if_false);
}

void CodeGenerator::operands(const Expr& left, const Expr& right) {
  Temporaries temporaries(frame_);
  scalar(left);
  if (load_simple(R1, right)) return;
  Place kept = keep(R0);
  scalar(right);
  asm_.mov(R1, R0);
  load_slot(R0, kept);
}

void CodeGenerator::compare(const lang::Binary& node, Label if_false) {
  if (node.left->type.is(TypeKind::kFloat) || node.right->type.is(TypeKind::kFloat))
    return compare_real(node, if_false);
  if (!is_number(node.left->type) || !is_number(node.right->type)) return compare_memory(node, if_false);
  Cond cond = inverse(condition_of(node.op, compares_signed(node)));
  const auto* literal = node.right->as<lang::IntLiteral>();
  if (literal && int64_t(literal->value) == int32_t(literal->value)) {
    scalar(*node.left);
    asm_.jump_if(cond, R0, int32_t(literal->value), if_false);
    return;
  }
  operands(*node.left, *node.right);
  asm_.jump_if(cond, R0, R1, if_false);
}

// What lies in memory: texts, and what consists of several values.
void CodeGenerator::compare_memory(const lang::Binary& node, Label if_false) {
  const Type &left = node.left->type, &right = node.right->type;
  bool is_equality = node.op == BinaryOp::kEqual || node.op == BinaryOp::kNotEqual;
  bool is_text = left.is(TypeKind::kString) && right.is(TypeKind::kString);
  if (!is_equality && !is_text)
    return unsupported(lang::join(node.left->span, node.right->span),
                       fmt::format("'{}' of {} and {}", spell(node.op), left.spell(), right.spell()));
  Label different = node.op == BinaryOp::kEqual ? if_false : asm_.label();
  auto common = lang::merge(left, right, node.right.get());
  if (is_text) {
    // Zero-padded strings of different sizes are equal if they are in the bytes that both have.
    Place a = place_of(*node.left), b = place_of(*node.right);
    uint64_t size = std::min(size_of(left), size_of(right));
    if (!is_equality) return order_bytes(a, b, size, node.op, if_false);
    equal_bytes(a, b, size, different);
  } else if (common) {
    Place a = place_as(*node.left, *common), b = place_as(*node.right, *common);
    equal_bytes(a, b, size_of(*common), different);
  } else {
    // Tuples of other lengths, records with other fields.
    discard(*node.left);
    discard(*node.right);
    asm_.jump(different);
  }
  if (node.op == BinaryOp::kEqual) return;
  asm_.jump(if_false);
  asm_.bind(different);
}

Place CodeGenerator::place_as(const Expr& expr, const Type& type) {
  if (expr.type == type) return place_of(expr);
  Place place = frame_.allocate(size_of(type));
  if (expr.type.is(TypeKind::kBuffer)) clear(place, size_of(type));
  store(expr, type, place);
  return place;
}

void CodeGenerator::binary(const Expr& expr, const lang::Binary& node) {
  if (is_comparison(node.op) || node.op == BinaryOp::kAnd || node.op == BinaryOp::kOr) {
    Label is_false = asm_.label(), done = asm_.label();
    condition(expr, is_false);
    asm_.mov(R0, 1);
    asm_.jump(done);
    asm_.bind(is_false);
    asm_.mov(R0, 0);
    asm_.bind(done);
    return;
  }
  if (node.left->type.is(TypeKind::kPointer) || node.right->type.is(TypeKind::kPointer))
    return pointer_arithmetic(expr, node);
  operands(*node.left, *node.right);
  arithmetic(node.op, plain_type(node.left->type), expr.type, *node.right, expr.span);
}

void CodeGenerator::pointer_arithmetic(const Expr& expr, const lang::Binary& node) {
  bool left = node.left->type.is(TypeKind::kPointer);
  const Type& pointer = left ? node.left->type : node.right->type;
  uint64_t size = std::max<uint64_t>(user_size(pointer.pointee()), 1);
  if (size > INT32_MAX) return unsupported(expr.span, "arithmetic with so large a type");
  operands(*node.left, *node.right);
  if (left && node.right->type.is(TypeKind::kPointer)) {
    asm_.alu(Alu::Sub, R0, R1);
    if (size == 1) return;
    asm_.mov(R1, int64_t(size));
    return signed_division(false);
  }
  if (size != 1) asm_.alu(Alu::Mul, left ? R1 : R0, int32_t(size));
  asm_.alu(node.op == BinaryOp::kSubtract ? Alu::Sub : Alu::Add, R0, R1);
}

void CodeGenerator::arithmetic(BinaryOp op, const Type& left, const Type& result, const Expr& right,
                               lang::Span span) {
  switch (op) {
    case BinaryOp::kAdd:
      return asm_.alu(Alu::Add, R0, R1);
    case BinaryOp::kSubtract:
      return asm_.alu(Alu::Sub, R0, R1);
    case BinaryOp::kMultiply:
      return asm_.alu(Alu::Mul, R0, R1);
    case BinaryOp::kDivide:
    case BinaryOp::kModulo:
      return divide(op, result, right, span);
    case BinaryOp::kBitAnd:
      return asm_.alu(Alu::And, R0, R1);
    case BinaryOp::kBitOr:
      return asm_.alu(Alu::Or, R0, R1);
    case BinaryOp::kBitXor:
      return asm_.alu(Alu::Xor, R0, R1);
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
      // The verifier wants to see that no more than 63 bits are shifted.
      asm_.alu(Alu::And, R1, 63);
      if (op == BinaryOp::kShiftLeft) return asm_.alu(Alu::Lsh, R0, R1);
      return asm_.alu(left.is_signed() ? Alu::Arsh : Alu::Rsh, R0, R1);
    default:
      return;
  }
}

// By zero gives 1 and a warning, as in bpftrace.
void CodeGenerator::divide(BinaryOp op, const Type& result, const Expr& divisor, lang::Span span) {
  const auto* literal = divisor.as<lang::IntLiteral>();
  Label done = asm_.label();
  if (!literal || literal->value == 0) {
    Label fine = asm_.label();
    asm_.jump_if(Cond::Ne, R1, 0, fine);
    warn(
        "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result.",
        span);
    asm_.mov(R0, 1);
    asm_.jump(done);
    asm_.bind(fine);
  }
  bool remainder = op == BinaryOp::kModulo;
  if (result.is_signed())
    signed_division(remainder);
  else
    asm_.alu(remainder ? Alu::Mod : Alu::Div, R0, R1);
  asm_.bind(done);
}

// eBPF before Linux 6.6 divides unsigned numbers only. Rounds towards zero; a remainder has the dividend's
// sign.
void CodeGenerator::signed_division(bool remainder) {
  Label left_positive = asm_.label(), right_positive = asm_.label(), done = asm_.label();
  asm_.mov(R3, R0);
  if (!remainder) asm_.alu(Alu::Xor, R3, R1);  // the sign of the result
  asm_.jump_if(Cond::SGe, R0, 0, left_positive);
  asm_.neg(R0);
  asm_.bind(left_positive);
  asm_.jump_if(Cond::SGe, R1, 0, right_positive);
  asm_.neg(R1);
  asm_.bind(right_positive);
  asm_.alu(remainder ? Alu::Mod : Alu::Div, R0, R1);
  asm_.jump_if(Cond::SGe, R3, 0, done);
  asm_.neg(R0);
  asm_.bind(done);
}

}  // namespace uscope::codegen
