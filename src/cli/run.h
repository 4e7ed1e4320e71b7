// `uscope -e 'PROGRAM'` and `uscope SCRIPT.bt`: run a script, with bpftrace's flags.
#pragma once

#include "base/result.h"
#include "cli/script_options.h"
#include "session/run.h"

namespace uscope::cli {

int run_command(const ScriptOptions& options);

// The script that the options name, with what they say of it: its text read, its process looked up.
Result<session::RunRequest> run_request(const ScriptOptions& options);

}  // namespace uscope::cli
