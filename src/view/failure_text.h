// What a helper's result means, in words, and where: shared by text and JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "view/output.h"

namespace uscope::view {

// "Map full; can't update element. …" where that is what happened, else errno's text.
std::string failure_text(const HelperFailure& failure);
// errno's text alone.
std::string errno_message(int64_t result);

struct Place {
  std::string_view file;
  uint64_t line = 0;
  uint64_t column = 0;
};
// "file:1:9-30" taken apart; a file's name may hold colons. What cannot be read stays 0.
Place parse_place(std::string_view place);

}  // namespace uscope::view
