// Pass: operations on literals become literals. Arithmetic is exact: what fits neither int64 nor uint64 is an
// error, as is division by zero.
#pragma once

#include "lang/ast.h"
#include "lang/diagnostics.h"

namespace uscope::lang {

void fold_constants(Program& program, Diagnostics& diagnostics);
// One node whose children are folded already.
void fold(Expr& expr, Diagnostics& diagnostics);

}  // namespace uscope::lang
