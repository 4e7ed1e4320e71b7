// Whether the condition of an #if holds: C's integer expressions over words in which macros are expanded
// already. Names are 0. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uscope::lang {

// Nothing where it does not read as an expression.
std::optional<bool> c_condition_holds(const std::vector<std::string>& words);

}  // namespace uscope::lang
