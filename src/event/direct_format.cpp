#include "event/direct_format.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace uscope::event {
namespace {

// As bpftrace marks text that did not fit; decode.cpp does the same.

bool is_plain(const FormatString::Piece& piece) {
  return !piece.left && !piece.plus && !piece.space && !piece.alternate && !piece.zero && piece.width == 0 &&
         piece.precision < 0 && (piece.length.empty() || piece.length == "l" || piece.length == "ll");
}

void append_number(std::string& out, auto number, int base) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, number, base).ptr;
  out.append(digits, end);
}

void append_text(std::string& out, Bytes field, uint64_t room, std::string_view trailer) {
  const void* end = std::memchr(field.data(), 0, field.size());
  const char* begin = reinterpret_cast<const char*>(field.data());
  size_t length = end ? size_t(static_cast<const char*>(end) - begin) : field.size();
  out.append(begin, length);
  if (length + 1 >= room) out.append(trailer);
}

}  // namespace

std::optional<DirectFormat::Step> DirectFormat::step_for(const FormatString::Piece& piece,
                                                         const Field& field) {
  const Layout& layout = field.layout;
  if (!is_plain(piece) || field.bit_width != 0 || piece.conversion.size() != 1) return std::nullopt;
  Step step;
  step.offset = field.offset;
  step.size = layout.size;
  char conversion = piece.conversion[0];
  if (conversion == 's' && layout.kind == Layout::Kind::String && layout.size != 0) {
    step.kind = Step::Kind::Text;
    step.literal = layout.trailer;
    return step;
  }
  bool is_whole = layout.size == 1 || layout.size == 2 || layout.size == 4 || layout.size == 8;
  if (layout.kind != Layout::Kind::Integer || !is_whole) return std::nullopt;
  step.extends_sign = layout.is_signed;
  // An int, as C has it; but a decimal number of 64 bits is shown whole. See FormatString.
  if (piece.length.empty() && (layout.size < 8 || conversion == 'x')) step.mask = UINT32_MAX;
  bool is_decimal = conversion == 'd' || conversion == 'i';
  if (is_decimal && piece.length.empty() && layout.size == 4) step.extends_sign = true;
  if (conversion == 'd' || conversion == 'i')
    step.kind = Step::Kind::Signed;
  else if (conversion == 'u')
    step.kind = Step::Kind::Unsigned;
  else if (conversion == 'x')
    step.kind = Step::Kind::Hex;
  else
    return std::nullopt;
  return step;
}

std::optional<DirectFormat> DirectFormat::make(const Format& format, const FormatString& text) {
  if (format.kind != FormatKind::Printf || format.arguments.fields.size() != text.conversions())
    return std::nullopt;
  DirectFormat direct;
  size_t next = 0;
  for (const FormatString::Piece& piece : text.pieces()) {
    Step step;
    if (piece.conversion.empty()) {
      step.literal = piece.literal;
    } else {
      auto made = step_for(piece, format.arguments.fields[next++]);
      if (!made || made->offset > UINT32_MAX || made->size > UINT32_MAX) return std::nullopt;
      step = std::move(*made);
      bool is_last = next == format.arguments.fields.size();
      if (is_last && step.kind == Step::Kind::Text && direct.needed_ <= step.offset)
        direct.last_text_ = step.offset;
      direct.needed_ = std::max(direct.needed_, step.offset + step.size);
    }
    direct.steps_.push_back(std::move(step));
  }
  return direct;
}

// The last text lies behind all else, and its record may end with its NUL.
bool DirectFormat::ends_with_text(Bytes record) const {
  return last_text_ && record.size() > *last_text_ &&
         std::memchr(record.data() + *last_text_, 0, record.size() - *last_text_) != nullptr;
}

bool DirectFormat::append(std::string& out, Bytes record) const {
  if (record.size() < needed_ && !ends_with_text(record)) return false;
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::Literal) {
      out += step.literal;
      continue;
    }
    Bytes field = record.subspan(step.offset, std::min(step.size, record.size() - step.offset));
    if (step.kind == Step::Kind::Text) {
      append_text(out, field, step.size, step.literal);
      continue;
    }
    uint64_t bits = 0;
    std::memcpy(&bits, field.data(), field.size());
    unsigned spare = unsigned(64 - 8 * step.size);
    if (step.extends_sign) bits = uint64_t(int64_t(bits << spare) >> spare);
    if (step.kind == Step::Kind::Signed)
      append_number(out, int64_t(bits), 10);
    else
      append_number(out, bits & step.mask, step.kind == Step::Kind::Hex ? 16 : 10);
  }
  return true;
}

}  // namespace uscope::event
