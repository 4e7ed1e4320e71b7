// Reading bytes that may lie. A ByteReader walks a span; every read is bounded. A read past the end yields
// zero (or an empty view) and sets failed(), which stays set, so a parser can read a whole record and check
// once. Little-endian only: uscope runs on x86-64 and reads x86-64 images. Owns nothing.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace uscope {

using Bytes = std::span<const uint8_t>;

// The part [offset, offset + size) of bytes, or nothing if it is not wholly inside. Safe against overflow.
inline std::optional<Bytes> slice(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

// The part from offset to the end; empty when offset lies outside.
inline Bytes slice_from(Bytes bytes, uint64_t offset) {
  return offset <= bytes.size() ? bytes.subspan(offset) : Bytes();
}

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The NUL-terminated text at offset; an unterminated one ends with the bytes. Empty when out of range.
inline std::string_view cstring_at(Bytes bytes, uint64_t offset) {
  if (offset >= bytes.size()) return {};
  std::string_view rest = as_text(bytes.subspan(offset));
  return rest.substr(0, rest.find('\0'));
}

class ByteReader {
 public:
  explicit ByteReader(Bytes bytes, uint64_t position = 0) : bytes_(bytes) { seek(position); }

  template <typename T>
  requires std::is_trivially_copyable_v<T> T read() {
    T value{};
    if (auto part = take(sizeof(T)); part.size() == sizeof(T)) std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }
  uint8_t u8() { return read<uint8_t>(); }
  uint16_t u16() { return read<uint16_t>(); }
  uint32_t u32() { return read<uint32_t>(); }
  uint64_t u64() { return read<uint64_t>(); }
  // An unsigned number of 1, 2, 4 or 8 bytes; any other width fails.
  uint64_t unsigned_of(unsigned width);
  uint64_t uleb128();
  int64_t sleb128();
  std::string_view cstring();
  // The next `count` bytes; empty and failed() if there are fewer.
  Bytes take(uint64_t count);
  void skip(uint64_t count) { take(count); }
  void seek(uint64_t position);
  // Skips to the next multiple of `alignment` (a power of two), counted from the start of the span.
  void align(uint64_t alignment);

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return position_ == bytes_.size(); }
  bool failed() const { return failed_; }
  explicit operator bool() const { return !failed_; }

 private:
  Bytes bytes_;
  uint64_t position_ = 0;
  bool failed_ = false;
};

}  // namespace uscope
