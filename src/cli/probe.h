// `uscope probe`: perf probe's exploring, with its flags and shapes.
#pragma once

#include <span>

namespace uscope::cli {

int probe_command(std::span<const char* const> args);

}  // namespace uscope::cli
