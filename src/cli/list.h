// `uscope -l`: what can be probed.
#pragma once

#include <span>

namespace uscope::cli {

// All arguments, including -l itself.
int list_command(std::span<const char* const> args);

}  // namespace uscope::cli
