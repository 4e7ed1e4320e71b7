#include "lang/c_value.h"

#include <algorithm>
#include <array>

namespace uscope::lang {
namespace {

struct Operator {
  Tok op;
  int level;
};
constexpr std::array kOperators = {
    Operator{Tok::kOrOr, 1},       Operator{Tok::kAndAnd, 2},       Operator{Tok::kOr, 3},
    Operator{Tok::kXor, 4},        Operator{Tok::kAnd, 5},          Operator{Tok::kEqual, 6},
    Operator{Tok::kNotEqual, 6},   Operator{Tok::kLess, 7},         Operator{Tok::kGreater, 7},
    Operator{Tok::kLessEqual, 7},  Operator{Tok::kGreaterEqual, 7}, Operator{Tok::kShiftLeft, 8},
    Operator{Tok::kShiftRight, 8}, Operator{Tok::kPlus, 9},         Operator{Tok::kMinus, 9},
    Operator{Tok::kStar, 10},      Operator{Tok::kSlash, 10},       Operator{Tok::kPercent, 10},
};

// The bits as a value of that type.
CValue wrapped(uint64_t bits, bool is_long, bool is_unsigned) {
  auto value = static_cast<int64_t>(bits);
  if (!is_long)
    value = is_unsigned ? int64_t{static_cast<uint32_t>(bits)} : int64_t{static_cast<int32_t>(bits)};
  return {value, is_long, is_unsigned};
}

// The type of both: the wider, of the same width the one without a sign.
CValue as_common(CValue value, CValue other) {
  bool is_long = value.is_long || other.is_long;
  bool is_unsigned =
      (value.is_unsigned && value.is_long == is_long) || (other.is_unsigned && other.is_long == is_long);
  return wrapped(static_cast<uint64_t>(value.value), is_long, is_unsigned);
}

bool is_less(CValue left, CValue right) {
  if (left.is_unsigned) return static_cast<uint64_t>(left.value) < static_cast<uint64_t>(right.value);
  return left.value < right.value;
}

CValue truth(bool value) { return {value ? 1 : 0, false, false}; }

std::optional<CValue> shifted(Tok op, CValue left, CValue right) {
  auto by = static_cast<uint64_t>(right.value);
  if (by >= (left.is_long ? 64 : 32)) return std::nullopt;
  auto bits = static_cast<uint64_t>(left.value);
  uint64_t out = op == Tok::kShiftLeft ? bits << by
                 : left.is_unsigned    ? bits >> by
                                       : static_cast<uint64_t>(left.value >> by);
  return wrapped(out, left.is_long, left.is_unsigned);
}

std::optional<CValue> divided(Tok op, CValue left, CValue right) {
  if (right.value == 0 || (!left.is_unsigned && right.value == -1 && left.value == INT64_MIN))
    return std::nullopt;
  auto a = static_cast<uint64_t>(left.value), b = static_cast<uint64_t>(right.value);
  bool divides = op == Tok::kSlash;
  uint64_t out = left.is_unsigned
                     ? (divides ? a / b : a % b)
                     : static_cast<uint64_t>(divides ? left.value / right.value : left.value % right.value);
  return wrapped(out, left.is_long, left.is_unsigned);
}

}  // namespace

CValue c_literal(uint64_t value, std::string_view spelling) {
  if (spelling.starts_with('\'')) return c_number(static_cast<int64_t>(value));
  bool is_decimal = !spelling.starts_with('0');
  bool is_hex = spelling.starts_with("0x") || spelling.starts_with("0X");
  auto has = [&](std::string_view letters) {
    return spelling.find_first_of(letters, is_hex ? 2 : 0) != std::string_view::npos;
  };
  bool with_u = has("uU"), may_be_unsigned = with_u || !is_decimal;
  bool is_long = has("lL") || value > UINT32_MAX || (value > INT32_MAX && !may_be_unsigned);
  uint64_t most_signed = is_long ? INT64_MAX : INT32_MAX;
  return {static_cast<int64_t>(value), is_long, with_u || value > most_signed};
}

CValue c_number(int64_t value) { return {value, value > INT32_MAX || value < INT32_MIN, false}; }

std::optional<CValue> c_cast(CValue value, const Type& to) {
  if (to.is(TypeKind::kBool)) return truth(value.value != 0);
  if (!to.is_integer() || to.size() > 8) return std::nullopt;
  auto bits = static_cast<uint64_t>(value.value);
  if (to.size() >= 4) return wrapped(bits, to.size() == 8, !to.is_signed());
  uint64_t unused = 64 - to.size() * 8;
  int64_t narrow = to.is_signed() ? static_cast<int64_t>(bits << unused) >> unused
                                  : static_cast<int64_t>(bits << unused >> unused);
  return CValue{narrow, false, false};
}

int c_precedence(Tok op) {
  auto found = std::ranges::find(kOperators, op, &Operator::op);
  return found == kOperators.end() ? 0 : found->level;
}

std::optional<CValue> c_apply(Tok op, CValue left, CValue right) {
  if (op == Tok::kOrOr) return truth(left.value != 0 || right.value != 0);
  if (op == Tok::kAndAnd) return truth(left.value != 0 && right.value != 0);
  if (op == Tok::kShiftLeft || op == Tok::kShiftRight) return shifted(op, left, right);
  CValue a = as_common(left, right), b = as_common(right, left);
  auto x = static_cast<uint64_t>(a.value), y = static_cast<uint64_t>(b.value);
  switch (op) {
    case Tok::kEqual:
      return truth(x == y);
    case Tok::kNotEqual:
      return truth(x != y);
    case Tok::kLess:
      return truth(is_less(a, b));
    case Tok::kGreater:
      return truth(is_less(b, a));
    case Tok::kLessEqual:
      return truth(!is_less(b, a));
    case Tok::kGreaterEqual:
      return truth(!is_less(a, b));
    case Tok::kOr:
      return wrapped(x | y, a.is_long, a.is_unsigned);
    case Tok::kXor:
      return wrapped(x ^ y, a.is_long, a.is_unsigned);
    case Tok::kAnd:
      return wrapped(x & y, a.is_long, a.is_unsigned);
    case Tok::kPlus:
      return wrapped(x + y, a.is_long, a.is_unsigned);
    case Tok::kMinus:
      return wrapped(x - y, a.is_long, a.is_unsigned);
    case Tok::kStar:
      return wrapped(x * y, a.is_long, a.is_unsigned);
    case Tok::kSlash:
    case Tok::kPercent:
      return divided(op, a, b);
    default:
      return std::nullopt;
  }
}

std::optional<CValue> c_apply(Tok op, CValue operand) {
  auto bits = static_cast<uint64_t>(operand.value);
  if (op == Tok::kBang) return truth(bits == 0);
  if (op == Tok::kMinus) return wrapped(0 - bits, operand.is_long, operand.is_unsigned);
  if (op == Tok::kTilde) return wrapped(~bits, operand.is_long, operand.is_unsigned);
  if (op == Tok::kPlus) return operand;
  return std::nullopt;
}

CValue c_choose(bool condition, CValue yes, CValue no) {
  return condition ? as_common(yes, no) : as_common(no, yes);
}

}  // namespace uscope::lang
