// What a script may ask of the machine it runs on, for the code generator: clocks, the pid namespace, the
// kernel's symbols and types, cgroups.
#pragma once

#include "codegen/generate.h"

namespace uscope::session {

void add_machine_facts(codegen::Inputs& inputs);

}  // namespace uscope::session
