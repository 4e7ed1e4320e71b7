// Whether the condition of an #if holds: C's integer expressions over words in which macros are expanded
// already. Names are 0; what does not read as an expression does not hold. Pure.
#pragma once

#include <string>
#include <vector>

namespace uscope::lang {

bool c_condition_holds(const std::vector<std::string>& words);

}  // namespace uscope::lang
