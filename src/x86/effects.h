// What one instruction does to registers, flags and memory, and its first operands, worked out from its
// bytes. Slower than decode(): ask only for the few instructions that matter. Implicit operands count (push
// writes rsp).
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "x86/registers.h"

namespace uscope::x86 {

struct Effects {
  RegisterSet read = 0;
  RegisterSet sources = 0;  // of these: what the result depends on, not only what is kept of the old value
  RegisterSet written = 0;  // perhaps in part, perhaps under a condition
  RegisterSet overwritten = 0;  // for certain and wholly: the old value is gone
  FlagSet flags_read = 0;
  FlagSet flags_written = 0;
  FlagSet flags_overwritten = 0;
  bool reads_memory = false;
  bool writes_memory = false;
};

std::optional<Effects> effects_of(Bytes instruction);

struct Operand {
  enum class Kind : uint8_t { none, general_register, memory, immediate, other };
  Kind kind = Kind::none;
  Register reg = Register::none;  // the register, or the memory operand's base
  Register index = Register::none;
  uint8_t scale = 0;
  uint16_t bits = 0;     // the operand's width
  bool segment = false;  // fs: or gs: based
  bool rip_base = false;
  int64_t value = 0;  // the immediate, or the displacement

  bool is_register() const { return kind == Kind::general_register; }
  bool is_memory() const { return kind == Kind::memory; }
  bool is_immediate() const { return kind == Kind::immediate; }
  friend bool operator==(const Operand&, const Operand&) = default;
};

// The operations that flow analysis has to understand; all others are `other`.
enum class Operation : uint8_t {
  other,
  mov,
  sign_extend,
  zero_extend,
  lea,
  add,
  sub,
  and_,
  cmp,
  push,
  pop,
  leave
};

struct Operands {
  Operation operation = Operation::other;
  Operand first;  // the destination, where there is one
  Operand second;
};

std::optional<Operands> operands_of(Bytes instruction);

}  // namespace uscope::x86
