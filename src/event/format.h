// printf as bpftrace has it: C's flags, width, precision and lengths, and conversions of its own: %r, %rx and
// %rh for bytes, %b for binary, %s for any value. A format is taken apart once and applied to many records.
//
// Two differences from bpftrace 0.27, both where it shows a wrong value as right: a decimal conversion
// without a length prints the whole of a 64-bit value (bpftrace cuts it to 32 bits), and what C defines for a
// space, for a precision and for zeros before a sign or 0x holds here too.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "event/symbol_names.h"
#include "event/value.h"

namespace uscope::event {

class FormatString {
 public:
  explicit FormatString(std::string_view text);

  // Appends the text of one record; fails, having appended nothing, when the number or the kind of arguments
  // does not fit the format.
  Status append(std::string& out, std::span<const Value> arguments, SymbolNames& names) const;
  size_t conversions() const { return conversions_; }

  struct Piece {
    std::string literal;  // of a piece that is no conversion
    bool left = false, plus = false, space = false, alternate = false, zero = false;
    int width = 0;
    int precision = -1;
    std::string length;      // "", "hh", "h", "l", …
    std::string conversion;  // "", "d", "rx", …
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  static bool read(std::string_view text, size_t& at, Piece& piece);
  static std::string text_of(const Piece& piece, const Value& value, SymbolNames& names);
  static std::string double_text(const Piece& piece, double number);
  static std::string integer_text(const Piece& piece, const Integer& number);
  static Status append_one(std::string& out, const Piece& piece, const Value& value, SymbolNames& names);

  std::vector<Piece> pieces_;
  size_t conversions_ = 0;
};

}  // namespace uscope::event
