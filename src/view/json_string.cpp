#include "view/json_string.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace uscope::view {
namespace {

// The length of the UTF-8 character at the start of text; 0 when there is none.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t length = byte(0) < 0x80   ? 1
                  : byte(0) < 0xc2 ? 0
                  : byte(0) < 0xe0 ? 2
                  : byte(0) < 0xf0 ? 3
                  : byte(0) < 0xf5 ? 4
                                   : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and numbers beyond U+10FFFF are told by the second byte.
  if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
  if (byte(0) == 0xed && byte(1) >= 0xa0) return 0;
  if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint8_t>(c));
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (static_cast<uint8_t>(c) < 0x20 || c == '"' || c == '\\') {
      append_escaped(out, c);
      ++i;
      continue;
    }
    size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += "\\ufffd";
      ++i;
      continue;
    }
    out.append(text, i, length);
    i += length;
  }
  out += '"';
}

}  // namespace uscope::view
