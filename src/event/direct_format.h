// The common printf, from a record's bytes to text with no values between: integers and text, without flags
// or widths. Millions of events a second go this way; what is rarer goes by decode.h and format.h, and reads
// the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "event/format.h"
#include "event/plan.h"

namespace uscope::event {

class DirectFormat {
 public:
  // Nothing if the format has more to it.
  static std::optional<DirectFormat> make(const Format& format, const FormatString& text);

  // False, with nothing appended, if the record is too short.
  bool append(std::string& out, Bytes record) const;

 private:
  struct Step {
    enum class Kind { Literal, Text, Signed, Unsigned, Hex };
    Kind kind = Kind::Literal;
    std::string literal;  // Text: what is shown behind a cut one
    uint64_t offset = 0, size = 0;
    bool extends_sign = false;
    uint64_t mask = UINT64_MAX;  // of what is shown
  };
  static std::optional<Step> step_for(const FormatString::Piece& piece, const Field& field);

  bool ends_with_text(Bytes record) const;

  std::vector<Step> steps_;
  std::optional<uint64_t> last_text_;  // where it begins, if the last argument is one
  uint64_t needed_ = 0;                // bytes of a record
};

}  // namespace uscope::event
