// Which processors the kernel knows: per-CPU maps hold a value for each possible one, events are opened on
// each one that is online.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace uscope::engine::kernel {

// "0-3,8" as the kernel writes it; an Error for anything else.
Result<std::vector<int>> parse_cpu_list(std::string_view text);
Result<std::vector<int>> possible_cpus();
Result<std::vector<int>> online_cpus();

}  // namespace uscope::engine::kernel
