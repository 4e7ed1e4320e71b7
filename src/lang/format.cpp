#include "lang/format.h"

#include <algorithm>

namespace uscope::lang {
namespace {

constexpr int kMaxWidth = 4096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int read_number(std::string_view text, size_t& at) {
  int value = 0;
  for (; at < text.size() && is_digit(text[at]); ++at)
    value = std::min(value * 10 + (text[at] - '0'), kMaxWidth);
  return value;
}

// A conversion that starts at `at` (a `%`); false if it is none, and then just text.
bool read_conversion(std::string_view text, size_t& at, FormatPiece& piece) {
  size_t i = at + 1;
  while (i < text.size() && std::string_view("-+ #0").find(text[i]) != std::string_view::npos)
    piece.flags += text[i++];
  if (i < text.size() && is_digit(text[i])) piece.width = read_number(text, i);
  if (i < text.size() && text[i] == '.') {
    ++i;
    piece.precision = read_number(text, i);
  }
  while (i < text.size() && std::string_view("hljztL").find(text[i]) != std::string_view::npos) ++i;
  if (i >= text.size()) return false;
  std::string_view rest = text.substr(i);
  for (std::string_view two : {"rx", "rh", "gr"}) {
    if (rest.starts_with(two)) piece.conversion = two;
  }
  if (piece.conversion.empty() &&
      std::string_view("diouxXcsprbfgeEG").find(rest[0]) != std::string_view::npos) {
    piece.conversion = rest[0];
  }
  if (piece.conversion.empty()) return false;
  i += piece.conversion.size();
  piece.text = text.substr(at, i - at);
  at = i;
  return true;
}

}  // namespace

std::vector<FormatPiece> parse_format(std::string_view format) {
  std::vector<FormatPiece> out;
  std::string literal;
  auto flush = [&] {
    if (!literal.empty()) out.push_back(FormatPiece{.text = std::move(literal)});
    literal.clear();
  };
  for (size_t i = 0; i < format.size();) {
    if (format[i] == '%' && i + 1 < format.size() && format[i + 1] == '%') {
      literal += '%';
      i += 2;
      continue;
    }
    FormatPiece piece;
    if (format[i] == '%' && read_conversion(format, i, piece)) {
      flush();
      out.push_back(std::move(piece));
      continue;
    }
    literal += format[i++];
  }
  flush();
  return out;
}

size_t conversions(const std::vector<FormatPiece>& pieces) {
  return static_cast<size_t>(
      std::ranges::count_if(pieces, [](const FormatPiece& piece) { return !piece.conversion.empty(); }));
}

bool accepts(const FormatPiece& piece, const Type& type) {
  const std::string& c = piece.conversion;
  if (!type.known()) return true;
  if (c == "s") return !type.is(TypeKind::kVoid) && !type.is(TypeKind::kBuffer);
  if (c == "r" || c == "rx" || c == "rh") return type.is(TypeKind::kBuffer);
  if (c == "f" || c == "g" || c == "e" || c == "E" || c == "G") {
    return type.is(TypeKind::kFloat) || type.is_integer();
  }
  return type.is_scalar() || type.casts_to_integer() || type.is(TypeKind::kFloat) ||
         type.is(TypeKind::kUserSymbol) || type.is(TypeKind::kKernelSymbol);
}

}  // namespace uscope::lang
