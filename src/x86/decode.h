// One x86-64 instruction's facts, from its bytes: how long it is, where it leads, what it refers to. Only
// 64-bit mode. decode() looks at the opcode only, without working out operands, and so does millions of
// instructions a second; what registers an instruction reads and writes costs more and is asked for with
// effects_of() (effects.h). Addresses are plain numbers: the same code serves images and live processes. Owns
// nothing, keeps no state.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "x86/registers.h"

namespace uscope::x86 {

inline constexpr unsigned max_instruction_length = 15;

enum class Kind : uint8_t {
  other,
  nop,               // any length
  endbr64,           //
  int3,              //
  undefined,         // ud0, ud1, ud2: the compiler's "never reached"
  hlt,               // faults in user mode; ends _start
  syscall,           // syscall, sysenter, int N
  call,              // direct
  indirect_call,     //
  jump,              // direct
  indirect_jump,     //
  conditional_jump,  // jcc
  counted_jump,      // loop, loope, loopne, jrcxz, jecxz: 8-bit displacement only
  xbegin,            // goes to its target when the transaction aborts
  ret,               // near return
  unusual_transfer,  // far jumps, calls and returns, iret, branches with a 16-bit displacement
};

struct Instruction {
  uint64_t address = 0;
  uint64_t target = 0;         // of a direct branch or call
  uint64_t memory_target = 0;  // what a rip-relative memory operand refers to; see rip_relative
  FlagSet flags_read = 0;
  FlagSet flags_written = 0;
  uint16_t mnemonic = 0;  // ZydisMnemonic
  uint8_t length = 0;
  Kind kind = Kind::other;
  uint8_t condition = 0;  // of a conditional_jump: the opcode's low four bits; condition ^ 1 is its opposite
  bool rip_relative = false;
  // Where the 32-bit displacement of a rip-relative operand, or a branch's relative immediate, stands in the
  // bytes.
  uint8_t displacement_offset = 0;
  uint8_t relative_offset = 0;
  uint8_t relative_size = 0;  // in bytes; 0: no direct branch

  uint64_t end() const { return address + length; }
  bool covers(uint64_t a) const { return a >= address && a - address < length; }
  // Has a known target inside the instruction's bytes.
  bool is_direct_branch() const {
    return kind == Kind::jump || kind == Kind::conditional_jump || kind == Kind::counted_jump ||
           kind == Kind::xbegin;
  }
  // Execution can go on with the next instruction (a call is taken to return).
  bool falls_through() const {
    return kind != Kind::jump && kind != Kind::indirect_jump && kind != Kind::ret &&
           kind != Kind::undefined && kind != Kind::hlt && kind != Kind::unusual_transfer;
  }
  // What compilers and linkers fill gaps with.
  bool is_padding() const { return kind == Kind::nop || kind == Kind::int3; }
};

// The instruction that the bytes begin with, or nothing when they are none (or end too early).
std::optional<Instruction> decode(Bytes code, uint64_t address);

// Whether a number stands in an instruction as an immediate, or as a displacement that is not relative to it.
bool has_number(Bytes instruction, uint32_t number);

// Calls visit(number) for those of an instruction's numbers that are wanted: where code is always loaded at
// the same addresses, they may be some. Looks closely only where four bytes at one of the places that a
// number can have, before another one or none, are a wanted one.
template <typename IsWanted, typename Visit>
void visit_numbers(Bytes instruction, IsWanted is_wanted, Visit visit) {
  constexpr std::array<size_t, 4> from_behind = {4, 5, 6, 8};
  for (size_t at : from_behind) {
    if (instruction.size() <= at) return;
    uint32_t number;
    std::memcpy(&number, &instruction[instruction.size() - at], sizeof number);
    if (is_wanted(number) && has_number(instruction, number)) visit(number);
  }
}

// Walks a range of code from its start, one instruction after the other.
//   for (Decoder d(code, address); auto instruction = d.next();) ...
// Stops at the end and at bytes that are no instruction; at_end() tells which.
class Decoder {
 public:
  Decoder(Bytes code, uint64_t address) : code_(code), address_(address) {}

  std::optional<Instruction> next();
  // The address of the first byte not walked over.
  uint64_t position() const { return address_ + offset_; }
  bool at_end() const { return offset_ == code_.size(); }
  // Goes on behind a byte that is no instruction.
  void skip_byte() { skip(1); }
  void skip(uint64_t bytes) { offset_ += bytes < code_.size() - offset_ ? bytes : code_.size() - offset_; }

 private:
  Bytes code_;
  uint64_t address_;
  uint64_t offset_ = 0;
};

}  // namespace uscope::x86
