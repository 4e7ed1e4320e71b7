// Pass: a probe whose attach points have different arguments, and that reads them, becomes one probe for each
// kind of arguments, with a body of its own. So `args.filename` may be an argument of open() here and another
// one of openat() there. The same for results of different types and `retval`.
#pragma once

#include "lang/type_source.h"
#include "lang/typed_program.h"

namespace uscope::lang {

void split_probes(TypedProgram& program, const TypeSource& types);

}  // namespace uscope::lang
