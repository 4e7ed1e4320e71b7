// Why many functions cannot be probed, in few words.
#pragma once

#include <string>
#include <vector>

namespace uscope::session {

// The reason for a refusal with the addresses left out: what many refusals have in common.
std::string general_reason(const std::string& reason);

// "something jumps to some address (12), the code ends at some address (3) and 2 other reasons (4)".
std::string count_reasons(const std::vector<std::string>& reasons);

}  // namespace uscope::session
