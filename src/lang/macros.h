// Pass: calls of a script's macros become blocks. A macro's own variables get names of their own in each
// expansion; it sees no map that was not handed to it. The macros leave the program.
#pragma once

#include "lang/ast.h"
#include "lang/diagnostics.h"

namespace uscope::lang {

// How many expansions one script may have: a dozen macros that call each other twice are a bomb.
inline constexpr size_t kMaxExpansions = 20000;

void expand_macros(Program& program, Diagnostics& diagnostics);

}  // namespace uscope::lang
