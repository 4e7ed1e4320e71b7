// Text as a JSON string, quotes and all, whatever its bytes are.
#pragma once

#include <string>
#include <string_view>

namespace uscope::view {

void append_json_string(std::string& out, std::string_view text);

}  // namespace uscope::view
