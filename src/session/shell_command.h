// Runs what a script hands to system(): a shell command whose output is collected. The command hears the
// signals that uscope itself keeps blocked while a script runs, so that Ctrl-C ends it, too. Waits until the
// command has closed its output, without a time limit; once the end is wanted, only for the command itself,
// not for what it has left running.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace uscope::session {

// What it wrote to standard output. How it ended does not matter.
Result<std::string> output_of_shell(const std::string& command, const std::function<bool()>& wants_end);

}  // namespace uscope::session
