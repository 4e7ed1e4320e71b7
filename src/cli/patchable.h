// `uscope -l --patchable FILE`: how much of a file the in-process engine can probe.
#pragma once

#include "cli/script_options.h"

namespace uscope::cli {

int patchable_command(const ScriptOptions& options);

}  // namespace uscope::cli
