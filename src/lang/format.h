// The format string of printf and its like, taken apart: literal text and conversions, with C's flags and
// bpftrace's own conversions (%r %rx %rh for buffers, %b for binary).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lang/types.h"

namespace uscope::lang {

struct FormatPiece {
  std::string text;   // literal text, `%%` undone; or the whole conversion, "%-10lld"
  std::string flags;  // of "-+ #0"
  int width = -1;     // -1: none
  int precision = -1;
  std::string conversion;  // "d", "s", "rx"; empty for literal text
};

std::vector<FormatPiece> parse_format(std::string_view format);
size_t conversions(const std::vector<FormatPiece>& pieces);
// May a value of this type be printed so?
bool accepts(const FormatPiece& piece, const Type& type);

}  // namespace uscope::lang
