#include "view/failure_text.h"

#include <cerrno>
#include <charconv>
#include <cstring>

namespace uscope::view {
namespace {

uint64_t leading_number(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string errno_message(int64_t result) {
  char text[128] = {};
  return strerror_r(static_cast<int>(-result), text, sizeof text);
}

std::string failure_text(const HelperFailure& failure) {
  if (failure.helper == "map_update_elem" && failure.result == -E2BIG) {
    return "Map full; can't update element. Try increasing max_map_keys config or manually setting the max "
           "entries in a map declaration e.g. `let @a = hash(5000)`";
  }
  if (failure.helper == "map_delete_elem" && failure.result == -ENOENT) {
    return "Can't delete map element because it does not exist.";
  }
  if (failure.helper == "map_lookup_elem") return "Can't lookup map element because it does not exist.";
  return errno_message(failure.result);
}

Place parse_place(std::string_view place) {
  size_t column = place.rfind(':');
  size_t line = column == std::string_view::npos || column == 0 ? column : place.rfind(':', column - 1);
  if (line == std::string_view::npos || column == line) return {place, 0, 0};
  return {place.substr(0, line), leading_number(place.substr(line + 1)),
          leading_number(place.substr(column + 1))};
}

}  // namespace uscope::view
