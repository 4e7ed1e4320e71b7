// How types combine: what a variable holds that is assigned two types, and what an operator yields. Integers
// only ever grow; nothing changes its kind.
#pragma once

#include <optional>

#include "lang/ast.h"
#include "lang/types.h"

namespace uscope::lang {

// The smallest integer that holds the literal: 1 is an int8, 200 an int16, 2^63 a uint64.
Type literal_type(const IntLiteral& literal);

// What holds both, nothing if nothing does. `value`, if given, is the expression of type `incoming`: literals
// in it fit unsigned types too.
std::optional<Type> merge(const Type& held, const Type& incoming, const Expr* value = nullptr);

// Whether a value of `type` can be stored as `into` without changing `into`.
bool fits(const Type& into, const Type& type, const Expr* value = nullptr);

// The integer both operands are brought to before an arithmetic or bit operation, or a comparison.
Type common_integer(const Expr& left, const Expr& right, BinaryOp op);

}  // namespace uscope::lang
