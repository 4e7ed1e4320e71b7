// The spelling of an integer -> its value: decimal with `_`, octal, hexadecimal, 1e6, C suffixes (u, l, ll),
// and durations (ns us ms s m h d), which count nanoseconds. Also used for numbers that come from the command
// line and attach points.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace uscope::lang {

struct IntLiteralError {
  std::string message;
  size_t suffix_begin = 0;  // where the wrong part starts, 0 for the whole
};

std::expected<uint64_t, IntLiteralError> parse_int_literal(std::string_view text);

}  // namespace uscope::lang
