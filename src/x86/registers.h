// Sets of x86-64 registers and flags as bit masks. A register stands for all its widths: al, ax, eax and rax
// are one bit, xmm3, ymm3 and zmm3 are one bit. rip is in no set: every instruction reads and writes it.
#pragma once

#include <cstdint>

namespace uscope::x86 {

// The general registers in the order the hardware encodes them; the value is the bit's number in a
// RegisterSet.
enum class Register : uint8_t {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15,
  none = 0xff,
};

using RegisterSet = uint64_t;

constexpr RegisterSet bit(Register r) { return r == Register::none ? 0 : RegisterSet(1) << unsigned(r); }
// Vector register 0..31.
constexpr RegisterSet vector_bit(unsigned number) { return RegisterSet(1) << (16 + (number & 31)); }
// AVX-512 mask register 0..7.
constexpr RegisterSet mask_bit(unsigned number) { return RegisterSet(1) << (48 + (number & 7)); }
// x87 and MMX share their storage: one bit for all of it.
inline constexpr RegisterSet x87_bit = RegisterSet(1) << 56;
// Everything else an instruction can name: segment, control, debug and bound registers, MXCSR, tiles.
inline constexpr RegisterSet system_bit = RegisterSet(1) << 57;

inline constexpr RegisterSet general_registers = 0xffff;
inline constexpr RegisterSet all_registers = (RegisterSet(1) << 58) - 1;

// Bits as in RFLAGS.
using FlagSet = uint32_t;
inline constexpr FlagSet carry_flag = 1u << 0;
inline constexpr FlagSet parity_flag = 1u << 2;
inline constexpr FlagSet adjust_flag = 1u << 4;
inline constexpr FlagSet zero_flag = 1u << 6;
inline constexpr FlagSet sign_flag = 1u << 7;
inline constexpr FlagSet direction_flag = 1u << 10;
inline constexpr FlagSet overflow_flag = 1u << 11;
// The ones that arithmetic sets and that no calling convention keeps across a call.
inline constexpr FlagSet arithmetic_flags =
    carry_flag | parity_flag | adjust_flag | zero_flag | sign_flag | overflow_flag;

// What a System V function may find its arguments in (rax counts the vector arguments of a variadic call; r10
// is the static chain).
inline constexpr RegisterSet system_v_argument_registers =
    bit(Register::rdi) | bit(Register::rsi) | bit(Register::rdx) | bit(Register::rcx) | bit(Register::r8) |
    bit(Register::r9) | bit(Register::rax) | bit(Register::r10) | (RegisterSet(0xff) << 16);
// Go's register ABI (1.17 and later): nine integers, fifteen floats, the closure in rdx, g in r14, zero in
// X15.
inline constexpr RegisterSet go_argument_registers =
    bit(Register::rax) | bit(Register::rbx) | bit(Register::rcx) | bit(Register::rdi) | bit(Register::rsi) |
    bit(Register::r8) | bit(Register::r9) | bit(Register::r10) | bit(Register::r11) | bit(Register::rdx) |
    bit(Register::r14) | (RegisterSet(0xffff) << 16);

// Before 1.17, and in assembly: arguments on the stack, only the closure in rdx.
inline constexpr RegisterSet go_stack_abi_registers = bit(Register::rdx);

}  // namespace uscope::x86
