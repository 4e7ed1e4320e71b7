// The names of Linux's signals, as scripts spell them.
#pragma once

#include <optional>
#include <string_view>

namespace uscope::lang {

// "KILL" or "SIGKILL".
std::optional<int> find_signal(std::string_view name);

}  // namespace uscope::lang
