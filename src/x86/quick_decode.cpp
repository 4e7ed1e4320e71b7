#include "x86/quick_decode.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace uscope::x86 {
namespace {

using Quick = QuickInstruction::Kind;

// What follows an opcode. `ask`: rare, or not the same everywhere: decode() knows.
enum Shape : uint8_t {
  ask,
  bare,
  imm8,
  imm32,    // 16 bits with an operand-size prefix
  imm_mov,  // as wide as the register
  rel8,
  rel32,
  modrm,
  modrm_imm8,
  modrm_imm32,
  group3_8,  // F6, F7: test has an immediate, the others have none
  group3_32,
  group5,     // FF
  group11_8,  // C6, C7: a move, or transactions
  group11_32,
};

constexpr std::array<Shape, 256> one_byte = [] {
  std::array<Shape, 256> shapes{};
  auto set = [&](unsigned first, unsigned last, Shape shape) {
    for (unsigned b = first; b <= last; ++b) shapes[b] = shape;
  };
  for (unsigned row = 0; row < 0x40; row += 8) {
    set(row, row + 3, modrm);
    shapes[row + 4] = imm8;
    shapes[row + 5] = imm32;
  }
  set(0x50, 0x5f, bare);
  shapes[0x63] = modrm;
  shapes[0x68] = imm32;
  shapes[0x69] = modrm_imm32;
  shapes[0x6a] = imm8;
  shapes[0x6b] = modrm_imm8;
  set(0x70, 0x7f, rel8);
  shapes[0x80] = modrm_imm8;
  shapes[0x81] = modrm_imm32;
  shapes[0x83] = modrm_imm8;
  set(0x84, 0x8b, modrm);
  shapes[0x8d] = modrm;
  set(0x90, 0x99, bare);
  set(0x9b, 0x9f, bare);
  set(0xa4, 0xa7, bare);
  shapes[0xa8] = imm8;
  shapes[0xa9] = imm32;
  set(0xaa, 0xaf, bare);
  set(0xb0, 0xb7, imm8);
  set(0xb8, 0xbf, imm_mov);
  set(0xc0, 0xc1, modrm_imm8);
  shapes[0xc3] = bare;
  shapes[0xc9] = bare;
  shapes[0xcc] = bare;
  shapes[0xc6] = group11_8;
  shapes[0xc7] = group11_32;
  set(0xd0, 0xd3, modrm);
  shapes[0xe8] = shapes[0xe9] = rel32;
  shapes[0xeb] = rel8;
  shapes[0xf6] = group3_8;
  shapes[0xf7] = group3_32;
  shapes[0xff] = group5;
  return shapes;
}();

constexpr std::array<Shape, 256> two_bytes = [] {
  std::array<Shape, 256> shapes{};
  auto set = [&](unsigned first, unsigned last, Shape shape) {
    for (unsigned b = first; b <= last; ++b) shapes[b] = shape;
  };
  shapes[0x05] = shapes[0x0b] = bare;
  set(0x10, 0x17, modrm);
  shapes[0x18] = modrm;
  shapes[0x1e] = shapes[0x1f] = modrm;
  set(0x28, 0x2f, modrm);
  set(0x40, 0x6f, modrm);
  shapes[0x70] = modrm_imm8;
  set(0x71, 0x73, modrm_imm8);
  set(0x74, 0x76, modrm);
  set(0x7e, 0x7f, modrm);
  set(0x80, 0x8f, rel32);
  set(0x90, 0x9f, modrm);
  shapes[0xa2] = bare;
  shapes[0xa3] = shapes[0xa5] = shapes[0xab] = shapes[0xad] = shapes[0xaf] = modrm;
  shapes[0xa4] = shapes[0xac] = shapes[0xba] = modrm_imm8;
  set(0xb0, 0xb1, modrm);
  shapes[0xb3] = modrm;
  set(0xb6, 0xb7, modrm);
  set(0xbb, 0xbf, modrm);
  set(0xc0, 0xc1, modrm);
  shapes[0xc2] = shapes[0xc4] = shapes[0xc5] = shapes[0xc6] = modrm_imm8;
  set(0xc8, 0xcf, bare);
  set(0xd1, 0xef, modrm);
  set(0xf1, 0xfe, modrm);
  return shapes;
}();

// All but that for the address size.
constexpr std::array<bool, 256> prefixes = [] {
  std::array<bool, 256> are{};
  for (unsigned b : {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0xf0, 0xf2, 0xf3}) are[b] = true;
  return are;
}();

// What data is full of.
bool is_zeroes(Bytes code) { return code.size() > 1 && code[0] == 0 && code[1] == 0; }

QuickInstruction ask_decode(Bytes code, uint64_t address) {
  QuickInstruction quick;
  const auto known = decode(code, address);
  if (!known || is_zeroes(code)) return quick;
  quick.length = known->length;
  if (known->kind == x86::Kind::unusual_transfer || known->kind == x86::Kind::hlt) return quick;
  quick.kind = Quick::other;
  if (known->relative_size != 0) {
    quick.kind = Quick::branch;
    quick.target = known->target;
  } else if (known->rip_relative) {
    quick.kind = Quick::points_to;
    quick.target = known->memory_target;
    // Opcode, ModRM, displacement.
    constexpr uint8_t lea = 0x8d;
    const unsigned at = known->displacement_offset;
    quick.is_lea = at >= 2 && code[at - 2] == lea && (at < 3 || code[at - 3] != 0x0f);
  }
  return quick;
}

int64_t read_signed(const uint8_t* at, unsigned size) {
  if (size == 1) return int8_t(*at);
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

constexpr size_t kReadable = max_instruction_length + 1;

// Near the end a copy is read, with zeroes behind it.
QuickInstruction decode_last(Bytes code, uint64_t address) {
  std::array<uint8_t, kReadable> copy{};
  std::ranges::copy(code, copy.begin());
  const QuickInstruction quick = quick_decode(copy, address);
  return quick.length <= code.size() ? quick : ask_decode(code, address);
}

}  // namespace

QuickInstruction quick_decode(Bytes code, uint64_t address) {
  if (code.size() < kReadable) return decode_last(code, address);
  const uint8_t* const start = code.data();
  const uint8_t* at = start;
  bool is_short_operand = false, is_wide = false;
  for (; prefixes[*at]; ++at) {
    if (at - start > 3) return ask_decode(code, address);
    is_short_operand |= *at == 0x66;
  }
  if ((*at & 0xf0) == 0x40) is_wide = (*at++ & 8) != 0;
  const uint8_t opcode = *at++;
  Shape shape = one_byte[opcode];
  bool is_two_byte = false;
  if (opcode == 0x0f) {
    is_two_byte = true;
    shape = two_bytes[*at++];
  }
  if (is_zeroes(code)) return {};
  const unsigned immediate = is_short_operand && !is_wide ? 2 : 4;
  QuickInstruction quick;
  quick.kind = Quick::other;
  unsigned behind = 0;  // bytes of immediates
  switch (shape) {
    case ask:
      return ask_decode(code, address);
    case bare:
      quick.length = uint8_t(at - start);
      return quick;
    case imm8:
      quick.length = uint8_t(at - start + 1);
      return quick;
    case imm32:
      quick.length = uint8_t(at - start + immediate);
      return quick;
    case imm_mov:
      quick.length = uint8_t(at - start + (is_wide ? 8 : immediate));
      return quick;
    case rel8:
    case rel32: {
      if (is_short_operand) return ask_decode(code, address);
      const unsigned size = shape == rel8 ? 1 : 4;
      quick.length = uint8_t(at - start + size);
      quick.kind = Quick::branch;
      quick.target = address + quick.length + uint64_t(read_signed(at, size));
      return quick;
    }
    case modrm:
      break;
    case modrm_imm8:
      behind = 1;
      break;
    case modrm_imm32:
      behind = immediate;
      break;
    case group3_8:
      behind = (*at >> 3 & 7) < 2 ? 1 : 0;
      break;
    case group3_32:
      behind = (*at >> 3 & 7) < 2 ? immediate : 0;
      break;
    case group11_8:
    case group11_32:
      if ((*at >> 3 & 7) != 0) return ask_decode(code, address);
      behind = shape == group11_8 ? 1 : immediate;
      break;
    case group5:
      // Far transfers, and what is no instruction.
      if (const unsigned operation = *at >> 3 & 7; operation == 3 || operation == 5 || operation == 7)
        return ask_decode(code, address);
      break;
  }
  const uint8_t byte = *at++;
  const unsigned mode = byte >> 6, base = byte & 7;
  const bool is_relative = mode == 0 && base == 5;
  if (mode != 3 && base == 4) {
    const bool has_no_base = mode == 0 && (*at & 7) == 5;
    ++at;
    if (has_no_base) at += 4;
  }
  const uint8_t* const displacement = at;
  if (mode == 1) at += 1;
  if (mode == 2 || is_relative) at += 4;
  quick.length = uint8_t(at - start + behind);
  if (is_relative) {
    quick.kind = Quick::points_to;
    quick.is_lea = !is_two_byte && opcode == 0x8d;
    quick.target = address + quick.length + uint64_t(read_signed(displacement, 4));
  }
  return quick;
}

}  // namespace uscope::x86
