#include "lang/fold.h"

#include <optional>

#include "lang/walk.h"

namespace uscope::lang {
namespace {

using Wide = __int128;

Wide wide(const IntLiteral& literal) {
  return literal.negative ? static_cast<Wide>(static_cast<int64_t>(literal.value))
                          : static_cast<Wide>(literal.value);
}

std::optional<IntLiteral> narrow(Wide value) {
  if (value < INT64_MIN || value > static_cast<Wide>(UINT64_MAX)) return std::nullopt;
  return IntLiteral{static_cast<uint64_t>(value), value < 0, ""};
}

// Nothing: it does not fit, or is not defined.
std::optional<IntLiteral> arithmetic(BinaryOp op, const IntLiteral& left, const IntLiteral& right) {
  Wide a = wide(left), b = wide(right);
  bool is_signed = left.negative || right.negative;
  auto bits = [&](uint64_t value) {
    bool negative = is_signed && static_cast<int64_t>(value) < 0;
    return IntLiteral{value, negative, ""};
  };
  switch (op) {
    case BinaryOp::kAdd:
      return narrow(a + b);
    case BinaryOp::kSubtract:
      return narrow(a - b);
    case BinaryOp::kMultiply: {
      Wide product = 0;
      if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
      return narrow(product);
    }
    case BinaryOp::kDivide:
      return b == 0 ? std::nullopt : narrow(a / b);
    case BinaryOp::kModulo:
      return b == 0 ? std::nullopt : narrow(a % b);
    case BinaryOp::kBitAnd:
      return bits(left.value & right.value);
    case BinaryOp::kBitOr:
      return bits(left.value | right.value);
    case BinaryOp::kBitXor:
      return bits(left.value ^ right.value);
    case BinaryOp::kShiftLeft:
      if (b < 0 || b > 63) return std::nullopt;
      return left.negative ? narrow(a * (static_cast<Wide>(1) << static_cast<int>(b)))
                           : std::optional(IntLiteral{left.value << static_cast<int>(b), false, ""});
    case BinaryOp::kShiftRight:
      if (b < 0 || b > 63) return std::nullopt;
      return narrow(a >> static_cast<int>(b));
    default:
      return std::nullopt;
  }
}

template <typename T>
std::optional<bool> compare(BinaryOp op, const T& left, const T& right) {
  switch (op) {
    case BinaryOp::kEqual:
      return left == right;
    case BinaryOp::kNotEqual:
      return left != right;
    case BinaryOp::kLess:
      return left < right;
    case BinaryOp::kLessEqual:
      return left <= right;
    case BinaryOp::kGreater:
      return left > right;
    case BinaryOp::kGreaterEqual:
      return left >= right;
    default:
      return std::nullopt;
  }
}

std::optional<bool> truth(const Expr& expr) {
  if (const auto* value = expr.as<IntLiteral>()) return value->value != 0;
  if (const auto* value = expr.as<BoolLiteral>()) return value->value;
  return std::nullopt;
}

std::optional<ExprNode> fold_binary(const Expr& expr, const Binary& node, Diagnostics& diagnostics) {
  if (node.op == BinaryOp::kAnd || node.op == BinaryOp::kOr) {
    auto left = truth(*node.left), right = truth(*node.right);
    if (!left || !right) return std::nullopt;
    return BoolLiteral{node.op == BinaryOp::kAnd ? *left && *right : *left || *right};
  }
  const auto *left_text = node.left->as<StringLiteral>(), *right_text = node.right->as<StringLiteral>();
  if (left_text && right_text) {
    if (auto result = compare(node.op, left_text->value, right_text->value)) return BoolLiteral{*result};
    return std::nullopt;
  }
  const auto *left = node.left->as<IntLiteral>(), *right = node.right->as<IntLiteral>();
  // An enum keeps its type, and thereby its names.
  if (!left || !right || node.left->type.known() || node.right->type.known()) return std::nullopt;
  if (auto result = compare(node.op, wide(*left), wide(*right))) return BoolLiteral{*result};
  auto result = arithmetic(node.op, *left, *right);
  if (!result) {
    diagnostics.error(expr.span, "unable to fold literals due to overflow or underflow");
    return std::nullopt;
  }
  return *result;
}

std::optional<ExprNode> fold_unary(const Expr& expr, const Unary& node, Diagnostics& diagnostics) {
  if (node.op == UnaryOp::kNot) {
    if (auto value = truth(*node.operand)) return BoolLiteral{!*value};
    return std::nullopt;
  }
  const auto* value = node.operand->as<IntLiteral>();
  if (value == nullptr || node.operand->type.known()) return std::nullopt;
  if (node.op == UnaryOp::kNegate) {
    auto result = narrow(-wide(*value));
    if (!result) diagnostics.error(expr.span, "unable to fold literals due to overflow or underflow");
    return result;
  }
  if (node.op == UnaryOp::kBitNot) {
    return IntLiteral{~value->value, false, ""};  // unsigned, as in bpftrace
  }
  return std::nullopt;
}

}  // namespace

void fold(Expr& expr, Diagnostics& diagnostics) {
  std::optional<ExprNode> result;
  if (const auto* binary = expr.as<Binary>()) result = fold_binary(expr, *binary, diagnostics);
  if (const auto* unary = expr.as<Unary>()) result = fold_unary(expr, *unary, diagnostics);
  if (auto* ternary = expr.as<Ternary>()) {
    if (auto condition = truth(*ternary->condition)) {
      ExprPtr taken = *condition ? std::move(ternary->then ? ternary->then : ternary->condition)
                                 : std::move(ternary->otherwise);
      result = std::move(taken->node);
      expr.type = taken->type;
    }
  }
  if (auto* comptime = expr.as<Comptime>()) {
    Expr& operand = *comptime->operand;
    if (operand.as<IntLiteral>() || operand.as<BoolLiteral>() || operand.as<StringLiteral>()) {
      ExprNode node = std::move(operand.node);
      result = std::move(node);
    }
  }
  if (auto* branch = expr.as<If>(); branch && branch->condition->as<BoolLiteral>()) {
    // Only `if comptime` gets here with a plain true or false that the script did not write itself; either
    // way the branch not taken can go.
    bool taken = branch->condition->as<BoolLiteral>()->value;
    if (taken) {
      Block then = std::move(branch->then);
      result = BlockExpr{std::move(then)};
    } else if (branch->otherwise) {
      ExprNode otherwise = std::move(branch->otherwise->node);
      result = std::move(otherwise);
    } else {
      result = BlockExpr{};
    }
  }
  if (result) expr.node = std::move(*result);
}

void fold_constants(Program& program, Diagnostics& diagnostics) {
  rewrite(program, [&](Expr& expr) { fold(expr, diagnostics); });
}

}  // namespace uscope::lang
