#include "base/bytes.h"

namespace uscope {

Bytes ByteReader::take(uint64_t count) {
  if (failed_ || count > remaining()) {
    failed_ = true;
    return {};
  }
  Bytes part = bytes_.subspan(position_, count);
  position_ += count;
  return part;
}

void ByteReader::seek(uint64_t position) {
  if (position > bytes_.size()) {
    failed_ = true;
    return;
  }
  position_ = position;
}

void ByteReader::align(uint64_t alignment) {
  uint64_t past = position_ & (alignment - 1);
  if (past != 0) skip(alignment - past);
}

uint64_t ByteReader::unsigned_of(unsigned width) {
  switch (width) {
    case 1:
      return u8();
    case 2:
      return u16();
    case 4:
      return u32();
    case 8:
      return u64();
    default:
      failed_ = true;
      return 0;
  }
}

uint64_t ByteReader::uleb128() {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    uint8_t byte = u8();
    if (failed_) return 0;
    if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
}

int64_t ByteReader::sleb128() {
  uint64_t value = 0;
  for (unsigned shift = 0;;) {
    uint8_t byte = u8();
    if (failed_) return 0;
    if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) == 0) {
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t(0) << shift;
      return int64_t(value);
    }
  }
}

std::string_view ByteReader::cstring() {
  std::string_view rest = as_text(bytes_.subspan(position_));
  size_t end = rest.find('\0');
  if (failed_ || end == std::string_view::npos) {
    failed_ = true;
    return {};
  }
  position_ += end + 1;
  return rest.substr(0, end);
}

}  // namespace uscope
