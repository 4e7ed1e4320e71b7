// Pass: a probe whose attach points have different arguments, and that reads them, becomes one probe for each
// kind of arguments, with a body of its own. So `args.filename` may be an argument of open() here and another
// one of openat() there. The same for `retval` and results of different types: numbers of any kind are then
// integers of their width and sign, and functions that return none are left out, with a warning.
#pragma once

#include "lang/diagnostics.h"
#include "lang/type_source.h"
#include "lang/typed_program.h"

namespace uscope::lang {

void split_probes(TypedProgram& program, const TypeSource& types, Diagnostics& diagnostics);

}  // namespace uscope::lang
