#include "event/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "event/render.h"

namespace uscope::event {
namespace {

// A width or precision beyond this is a mistake, and must not eat memory.
constexpr int kMaxWidth = 4096;

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

int read_number(std::string_view text, size_t& at) {
  int value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = std::min(value * 10 + (text[at] - '0'), kMaxWidth);
  }
  return value;
}

Integer from_double(double number) {
  if (std::isnan(number)) return Integer{};
  if (number >= 9223372036854775808.0) return Integer{static_cast<uint64_t>(INT64_MAX)};
  if (number < -9223372036854775808.0) return Integer{static_cast<uint64_t>(INT64_MIN)};
  return Integer{static_cast<uint64_t>(static_cast<int64_t>(number))};
}

std::optional<Integer> integer_of(const Value& value) {
  if (auto* number = value.get_if<Integer>()) return *number;
  if (auto* flag = value.get_if<bool>()) return Integer{*flag ? 1u : 0u, false, 1};
  if (auto* enumerator = value.get_if<EnumValue>()) return enumerator->number;
  if (auto* pointer = value.get_if<Pointer>()) return Integer{pointer->address, false, 8};
  if (auto* average = value.get_if<Average>()) return average->value;
  if (auto* symbol = value.get_if<Symbol>()) return Integer{symbol->address, false, 8};
  if (auto* user = value.get_if<Username>()) return Integer{user->uid, false, 8};
  if (auto* error = value.get_if<Strerror>()) return Integer{error->number, true, 4};
  if (auto* real = value.get_if<Float>()) return from_double(real->number);
  return std::nullopt;
}

std::optional<double> double_of(const Value& value) {
  if (auto* real = value.get_if<Float>()) return real->number;
  auto number = integer_of(value);
  if (!number) return std::nullopt;
  return number->is_signed ? static_cast<double>(number->as_signed()) : static_cast<double>(number->bits);
}

// How many bits a conversion shows. Without a length, C and bpftrace show an int. A decimal number of more
// than that is shown whole all the same: the digits of its lower half would be another number.
unsigned shown_bits(std::string_view length, char conversion, const Integer& number) {
  if (length == "hh") return 8;
  if (length == "h") return 16;
  if (!length.empty() || conversion == 'p' || conversion == 'b') return 64;
  bool is_decimal = is_one_of(conversion, "diu");
  return is_decimal && number.size > 4 ? 64 : 32;
}

// The magnitude's digits, at least `precision` of them; precision 0 shows a zero as nothing, as C has it.
std::string digits_of(uint64_t magnitude, char conversion, int precision) {
  std::string digits;
  if (conversion == 'x' || conversion == 'p') {
    digits = fmt::format("{:x}", magnitude);
  } else if (conversion == 'X') {
    digits = fmt::format("{:X}", magnitude);
  } else if (conversion == 'o') {
    digits = fmt::format("{:o}", magnitude);
  } else if (conversion == 'b') {
    digits = fmt::format("{:b}", magnitude);
  } else {
    digits = std::to_string(magnitude);
  }
  if (precision == 0 && magnitude == 0) digits.clear();
  if (precision > 0 && digits.size() < static_cast<size_t>(precision)) {
    digits.insert(0, static_cast<size_t>(precision) - digits.size(), '0');
  }
  return digits;
}

std::string_view alternate_prefix(char conversion, uint64_t magnitude) {
  if (magnitude == 0) return "";
  if (conversion == 'p') return "0x";
  if (conversion == 'x') return "0x";
  if (conversion == 'X') return "0X";
  if (conversion == 'b') return "0b";
  return "";
}

const char* kind_of(const Value& value) {
  if (value.is<std::string>()) return "text";
  if (value.is<Buffer>()) return "bytes";
  if (value.is<Stack>()) return "a stack";
  if (value.is<Tuple>()) return "a tuple";
  if (value.is<Record>()) return "a record";
  if (value.is<Array>()) return "an array";
  if (value.is<Histogram>()) return "a histogram";
  return "this value";
}

}  // namespace

FormatString::FormatString(std::string_view text) {
  Piece literal;
  auto flush = [&] {
    if (!literal.literal.empty()) pieces_.push_back(std::move(literal));
    literal = Piece();
  };
  for (size_t at = 0; at < text.size();) {
    Piece piece;
    if (text[at] == '%' && text.substr(at).starts_with("%%")) {
      literal.literal += '%';
      at += 2;
    } else if (text[at] == '%' && read(text, at, piece)) {
      flush();
      pieces_.push_back(std::move(piece));
      ++conversions_;
    } else {
      literal.literal += text[at++];
    }
  }
  flush();
}

// A conversion that starts at `at`; false when it is none, and then just text.
bool FormatString::read(std::string_view text, size_t& at, Piece& piece) {
  size_t i = at + 1;
  for (; i < text.size() && is_one_of(text[i], "-+ #0"); ++i) {
    piece.left |= text[i] == '-';
    piece.plus |= text[i] == '+';
    piece.space |= text[i] == ' ';
    piece.alternate |= text[i] == '#';
    piece.zero |= text[i] == '0';
  }
  // bpftrace takes a * and passes no argument for it.
  auto number = [&] { return i < text.size() && text[i] == '*' ? (++i, -1) : read_number(text, i); };
  piece.width = std::max(number(), 0);
  if (i < text.size() && text[i] == '.') {
    ++i;
    piece.precision = number();
  }
  for (; i < text.size() && is_one_of(text[i], "hljztL"); ++i) piece.length += text[i];
  std::string_view rest = text.substr(std::min(i, text.size()));
  if (rest.starts_with("rx") || rest.starts_with("rh")) {
    piece.conversion = rest.substr(0, 2);
  } else if (!rest.empty() && is_one_of(rest[0], "diouxXcsprbfFeEgGaA")) {
    piece.conversion = rest[0];
  } else {
    return false;
  }
  at = i + piece.conversion.size();
  return true;
}

namespace {

void append_padded(std::string& out, std::string_view text, int width, bool left) {
  size_t padding = static_cast<size_t>(width) > text.size() ? static_cast<size_t>(width) - text.size() : 0;
  if (!left) out.append(padding, ' ');
  out += text;
  if (left) out.append(padding, ' ');
}

// printf's own for floating point: the one thing that C's library does better than a page of code.
std::string c_double_text(const std::string& flags, int width, int precision, char conversion,
                          double number) {
  std::string pattern = "%" + flags + "*.*" + conversion;
  char small[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  int length = std::snprintf(small, sizeof small, pattern.c_str(), width, precision, number);
  if (length < 0) return "";
  if (static_cast<size_t>(length) < sizeof small) return std::string(small, static_cast<size_t>(length));
  std::string large(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(large.data(), large.size(), pattern.c_str(), width, precision, number);
#pragma GCC diagnostic pop
  large.pop_back();
  return large;
}

}  // namespace

std::string FormatString::text_of(const Piece& piece, const Value& value, SymbolNames& names) {
  std::string text;
  if (piece.conversion == "s") {
    append_text(text, value, names);
  } else {
    BytesStyle style = piece.conversion == "rh"   ? BytesStyle::Hex
                       : piece.conversion == "rx" ? BytesStyle::EscapedHex
                                                  : BytesStyle::Escaped;
    append_bytes(text, value.get_if<Buffer>()->bytes, style);
  }
  if (piece.precision >= 0 && text.size() > static_cast<size_t>(piece.precision)) {
    text.resize(static_cast<size_t>(piece.precision));
  }
  return text;
}

std::string FormatString::double_text(const Piece& piece, double number) {
  std::string flags;
  if (piece.left) flags += '-';
  if (piece.plus) flags += '+';
  if (piece.space) flags += ' ';
  if (piece.alternate) flags += '#';
  if (piece.zero) flags += '0';
  return c_double_text(flags, piece.width, piece.precision, piece.conversion[0], number);
}

std::string FormatString::integer_text(const Piece& piece, const Integer& number) {
  char kind = piece.conversion[0];
  unsigned bits = shown_bits(piece.length, kind, number);
  uint64_t magnitude = number.bits;
  std::string sign;
  if (kind == 'd' || kind == 'i') {
    int64_t shown = bits == 8    ? static_cast<int8_t>(magnitude)
                    : bits == 16 ? static_cast<int16_t>(magnitude)
                    : bits == 32 ? static_cast<int32_t>(magnitude)
                                 : static_cast<int64_t>(magnitude);
    magnitude = shown < 0 ? uint64_t{0} - static_cast<uint64_t>(shown) : static_cast<uint64_t>(shown);
    sign = shown < 0 ? "-" : piece.plus ? "+" : piece.space ? " " : "";
  } else if (bits < 64) {
    magnitude &= (uint64_t{1} << bits) - 1;
  }
  if (piece.alternate || kind == 'p') sign += alternate_prefix(kind, magnitude);
  std::string digits = digits_of(magnitude, kind, piece.precision);
  // A precision may have put the zero there.
  if (piece.alternate && kind == 'o' && !digits.starts_with('0')) digits.insert(0, 1, '0');
  size_t used = sign.size() + digits.size();
  if (piece.zero && !piece.left && piece.precision < 0 && static_cast<size_t>(piece.width) > used) {
    digits.insert(0, static_cast<size_t>(piece.width) - used, '0');
  }
  return sign + digits;
}

Status FormatString::append_one(std::string& out, const Piece& piece, const Value& value,
                                SymbolNames& names) {
  char kind = piece.conversion[0];
  std::optional<std::string> text;
  if (kind == 's' || (kind == 'r' && value.is<Buffer>())) {
    text = text_of(piece, value, names);
  } else if (is_one_of(kind, "fFeEgGaA")) {
    if (auto number = double_of(value)) text = double_text(piece, *number);
  } else if (auto number = kind == 'r' ? std::nullopt : integer_of(value)) {
    text = kind == 'c' ? std::string(1, static_cast<char>(number->bits)) : integer_text(piece, *number);
  }
  if (!text) return fail(fmt::format("%{} cannot show {}", piece.conversion, kind_of(value)));
  append_padded(out, *text, piece.width, piece.left);
  return {};
}

Status FormatString::append(std::string& out, std::span<const Value> arguments, SymbolNames& names) const {
  if (arguments.size() != conversions_) {
    return fail(fmt::format("the format has {} conversions, the record {} arguments", conversions_,
                            arguments.size()));
  }
  size_t start = out.size();
  size_t next = 0;
  for (const Piece& piece : pieces_) {
    if (piece.conversion.empty()) {
      out += piece.literal;
      continue;
    }
    Status done = append_one(out, piece, arguments[next++], names);
    if (!done) {
      out.resize(start);
      return fail(std::move(done).error().while_doing(fmt::format("argument {}", next)));
    }
  }
  return {};
}

}  // namespace uscope::event
