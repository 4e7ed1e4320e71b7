// `uscope -l`: what can be probed, or what a script probes.
#pragma once

#include "cli/script_options.h"

namespace uscope::cli {

int list_command(const ScriptOptions& options);

}  // namespace uscope::cli
