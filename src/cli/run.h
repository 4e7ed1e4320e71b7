// `uscope -e 'PROGRAM'` and `uscope SCRIPT.bt`: run a script, with bpftrace's flags.
#pragma once

#include <span>

namespace uscope::cli {

// All arguments.
int run_command(std::span<const char* const> args);

}  // namespace uscope::cli
