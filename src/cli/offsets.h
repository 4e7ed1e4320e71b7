// uscope offsets FILE [GLOB|0xOFFSET], uscope offsets PID IMAGE [GLOB]: where functions lie in their file.
#pragma once

#include <span>

namespace uscope::cli {

// `arguments` are those behind the command's name. Returns the exit code.
int offsets_command(std::span<const char* const> arguments);

}  // namespace uscope::cli
