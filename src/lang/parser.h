// Script text -> syntax tree. Recursive descent with precedence climbing, reading tokens on demand. The first
// syntax error ends the parse. Nesting and tree height are bounded, so that no script can overflow the stack
// here or in a later pass. Does not resolve names, take attach points apart or look at C definitions.
#pragma once

#include <optional>

#include "lang/ast.h"
#include "lang/diagnostics.h"
#include "lang/source.h"

namespace uscope::lang {

// Nesting of blocks, parentheses and operators that a script may have.
inline constexpr uint32_t kMaxNesting = 1000;
// Height of an expression tree, blocks inside it included: a chain like 1 + 1 + 1 nests without parentheses.
inline constexpr uint32_t kMaxHeight = 1000;

// Nothing when there was a syntax error; `diagnostics` then has it.
std::optional<Program> parse(const SourceSet& sources, uint32_t source, Diagnostics& diagnostics);

// One expression, to the end of the text: the replacement of a #define.
ExprPtr parse_expression(const SourceSet& sources, uint32_t source, Diagnostics& diagnostics);

}  // namespace uscope::lang
