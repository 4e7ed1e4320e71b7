// uscope types FILE|PID [NAME|GLOB]: a program's types, and how they lie in memory.
#pragma once

#include <span>

namespace uscope::cli {

// `arguments` are those behind the command's name. Returns the exit code.
int types_command(std::span<const char* const> arguments);

}  // namespace uscope::cli
