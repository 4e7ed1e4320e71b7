// uscope libs FILE|PID: what a program is made of, and the libraries it takes or has mapped.
#pragma once

#include <span>

namespace uscope::cli {

// `arguments` are those behind the command's name. Returns the exit code.
int libs_command(std::span<const char* const> arguments);

}  // namespace uscope::cli
