// The few instructions that patching writes, as bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace uscope::x86 {

inline constexpr unsigned near_jump_size = 5;
inline constexpr unsigned short_jump_size = 2;
inline constexpr unsigned absolute_jump_size = 14;

// Whether a 32-bit displacement counted from `end` can name `target`. Addresses wrap as in the processor.
constexpr bool reaches(uint64_t end, uint64_t target) {
  const auto distance = int64_t(target - end);
  return distance == int32_t(distance);
}

// jmp rel32; nothing when the target is more than 2 GB away.
std::optional<std::array<uint8_t, near_jump_size>> encode_jump(uint64_t from, uint64_t to);
// jmp rel8; nothing when the target is more than 127 bytes away.
std::optional<std::array<uint8_t, short_jump_size>> encode_short_jump(uint64_t from, uint64_t to);
// jmp *0(%rip); .quad to. Goes anywhere, touches no register, flag or stack.
std::array<uint8_t, absolute_jump_size> encode_absolute_jump(uint64_t to);

}  // namespace uscope::x86
