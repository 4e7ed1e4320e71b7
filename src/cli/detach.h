// uscope detach PID: takes out what a uscope that was killed has left in a process.
#pragma once

#include <span>

namespace uscope::cli {

// `arguments` are those behind the command's name. Returns the exit code.
int detach_command(std::span<const char* const> arguments);

}  // namespace uscope::cli
