// The constants that C definitions use, computed as C does: in 32 or 64 bits, with a sign or without. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lang/lexer.h"
#include "lang/types.h"

namespace uscope::lang {

struct CValue {
  int64_t value = 0;  // of 64 bits without a sign: the bits
  bool is_long = false;
  bool is_unsigned = false;

  bool is_negative() const { return value < 0 && !is_unsigned; }
};

// A number as it is written: its size and suffix say of what type it is.
CValue c_literal(uint64_t value, std::string_view spelling);
// A plain number: int where it fits, else long.
CValue c_number(int64_t value);
// As a value of the integer type; nothing if it is none.
std::optional<CValue> c_cast(CValue value, const Type& to);

// How tightly a binary operator binds; 0: it is none.
int c_precedence(Tok op);
// Nothing where C has no answer: a division by zero, a shift that is too wide.
std::optional<CValue> c_apply(Tok op, CValue left, CValue right);
// -x, ~x, !x, +x; nothing for other operators.
std::optional<CValue> c_apply(Tok op, CValue operand);
// What `condition ? yes : no` is.
CValue c_choose(bool condition, CValue yes, CValue no);

}  // namespace uscope::lang
