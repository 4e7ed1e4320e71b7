#include "lang/int_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace uscope::lang {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

std::unexpected<IntLiteralError> overflow(std::string_view text) {
  return std::unexpected(
      IntLiteralError{fmt::format("overflow error, maximum value is {}: {}", UINT64_MAX, text), 0});
}

std::unexpected<IntLiteralError> trailing(std::string_view text) {
  return std::unexpected(IntLiteralError{fmt::format("invalid trailing bytes: {}", text), 0});
}

// The factor of a suffix; 0 when there is no such suffix.
uint64_t suffix_factor(std::string_view suffix) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 7> kDurations = {
      {{"ns", 1},
       {"us", 1000},
       {"ms", 1000000},
       {"s", 1000000000},
       {"m", 60000000000},
       {"h", 3600000000000},
       {"d", 86400000000000}}};
  for (auto [name, factor] : kDurations) {
    if (suffix == name) return factor;
  }
  std::string lower(suffix);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (std::string_view c_suffix : {"", "u", "l", "ll", "ul", "ull", "lu", "llu"}) {
    if (lower == c_suffix) return 1;
  }
  return 0;
}

bool multiply(uint64_t& value, uint64_t factor) { return !__builtin_mul_overflow(value, factor, &value); }

}  // namespace

std::expected<uint64_t, IntLiteralError> parse_int_literal(std::string_view text) {
  size_t at = 0;
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    at = 2;
  } else if (text.size() > 1 && text[0] == '0' && digit_value(text[1]) < 10) {
    base = 8;
    at = 1;
  }
  uint64_t value = 0;
  bool any = base == 8;
  for (; at < text.size(); ++at) {
    if (text[at] == '_' && any) continue;
    int digit = digit_value(text[at]);
    if (base == 8 && (digit == 8 || digit == 9)) return trailing(text);
    if (digit >= base) break;
    any = true;
    if (!multiply(value, static_cast<uint64_t>(base)) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(digit), &value)) {
      return overflow(text);
    }
  }
  if (!any) return std::unexpected(IntLiteralError{fmt::format("invalid integer: {}", text), 0});
  if (base == 10 && at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E') &&
      digit_value(text[at + 1]) < 10) {
    if (at != 1 || value == 0) {
      return std::unexpected(
          IntLiteralError{fmt::format("coefficient part of scientific literal must be 1-9: {}", text), 0});
    }
    unsigned exponent = 0;
    for (++at; at < text.size() && (digit_value(text[at]) < 10 || text[at] == '_'); ++at) {
      if (text[at] != '_')
        exponent = std::min(exponent * 10 + static_cast<unsigned>(digit_value(text[at])), 1000u);
    }
    for (; exponent > 0; --exponent) {
      if (!multiply(value, 10)) return overflow(text);
    }
  }
  std::string_view suffix = text.substr(at);
  uint64_t factor = suffix_factor(suffix);
  if (factor == 0) {
    return std::unexpected(IntLiteralError{fmt::format("invalid integer suffix '{}'", suffix), at});
  }
  if (!multiply(value, factor)) return overflow(text);
  return value;
}

}  // namespace uscope::lang
