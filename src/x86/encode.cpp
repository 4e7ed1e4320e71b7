#include "x86/encode.h"

#include <cstring>

namespace uscope::x86 {

std::optional<std::array<uint8_t, near_jump_size>> encode_jump(uint64_t from, uint64_t to) {
  const uint64_t end = from + near_jump_size;
  if (!reaches(end, to)) return std::nullopt;
  std::array<uint8_t, near_jump_size> bytes{0xe9};
  const auto distance = int32_t(to - end);
  std::memcpy(&bytes[1], &distance, sizeof distance);
  return bytes;
}

std::optional<std::array<uint8_t, short_jump_size>> encode_short_jump(uint64_t from, uint64_t to) {
  const auto distance = int64_t(to - (from + short_jump_size));
  if (distance != int8_t(distance)) return std::nullopt;
  return std::array<uint8_t, short_jump_size>{0xeb, uint8_t(distance)};
}

std::array<uint8_t, absolute_jump_size> encode_absolute_jump(uint64_t to) {
  std::array<uint8_t, absolute_jump_size> bytes{0xff, 0x25};
  std::memcpy(&bytes[6], &to, sizeof to);
  return bytes;
}

}  // namespace uscope::x86
