#include "engine/kernel/probed_instruction.h"

#include <algorithm>
#include <array>

namespace uscope::engine::kernel {
namespace {

constexpr uint8_t kOperandSize = 0x66;

bool is_prefix(uint8_t byte) {
  constexpr std::array<uint8_t, 11> kPrefixes = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
                                                 0x66, 0x67, 0xf0, 0xf2, 0xf3};
  return std::ranges::find(kPrefixes, byte) != kPrefixes.end();
}

// The segments but FS and GS, and LOCK.
bool is_refused_prefix(uint8_t byte) {
  return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0xf0;
}

// Seen on Linux 6.18, a row each sixteen: what talks to devices, interrupts, or is none in 64-bit code. It
// takes the opcode of a vector instruction (VEX, EVEX) for one of these too.
bool is_refused_opcode(uint8_t opcode) {
  constexpr std::array<uint16_t, 16> kRefused = {
      0x40c0, 0xc0c0, 0xc0c0, 0xc0c0, 0x0000, 0x0000, 0xf007, 0x0000,   // 00 to 7f
      0x0004, 0x0400, 0x0000, 0x0000, 0xf030, 0x0050, 0xf4f0, 0x0c13};  // 80 to ff
  return (kRefused[opcode >> 4] >> (opcode & 15) & 1) != 0;
}

bool is_branch(Bytes code) {
  uint8_t opcode = code[0];
  if (opcode == 0x0f) return code.size() > 1 && code[1] >> 4 == 8;
  return opcode >> 4 == 7 || opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb;
}

// What a VEX or EVEX prefix takes, or nothing.
size_t vector_prefix(uint8_t byte) {
  if (byte == 0xc5) return 2;
  if (byte == 0xc4) return 3;
  return byte == 0x62 ? 4 : 0;
}

}  // namespace

bool can_probe(Bytes code) {
  bool is_short = false;
  while (!code.empty() && is_prefix(code[0])) {
    if (is_refused_prefix(code[0])) return false;
    is_short |= code[0] == kOperandSize;
    code = code.subspan(1);
  }
  if (!code.empty() && code[0] >> 4 == 4) code = code.subspan(1);  // REX
  if (code.empty()) return true;
  if (size_t length = vector_prefix(code[0]))
    return code.size() <= length || !is_refused_opcode(code[length]);
  if (is_refused_opcode(code[0])) return false;
  if (is_short && is_branch(code)) return false;
  bool loads_stack_segment = code[0] == 0x8e && code.size() > 1 && (code[1] >> 3 & 7) == 2;
  return !loads_stack_segment;
}

}  // namespace uscope::engine::kernel
