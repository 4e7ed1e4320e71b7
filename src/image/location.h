// Where a variable lives at one instruction, as a small expression that a tracer can evaluate: no DWARF
// opcodes beyond those that compute. Made by dwarf::DebugInfo; consumed by fetch-argument printers and code
// generators. Registers are x86-64's, by DWARF number (0 rax, 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp, 7
// rsp, 8–15 r8–r15, 16 rip, 17–32 xmm0–xmm15).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"

namespace uscope::image {

// One step of a stack machine over 64-bit values; enough for every location compilers emit on x86-64.
struct LocOp {
  enum class Code {
    Register,    // push register `number`
    Constant,    // push `value`
    Address,     // push an address of this image: `value` is an ImageAddr, to be slid by the load bias
    TlsAddress,  // pop a thread-local offset, push its address
    EntryValue,  // push what register `number` held on entry to the function
    AddConst,    // add `value` to the top
    Deref,       // pop an address, push `number` bytes read there (zero-extended)
    Add,
    Sub,
    Mul,
    Div,  // signed
    Mod,  // unsigned
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Sar,
    Neg,
    Not,
    Abs,
    Eq,  // comparisons are signed and push 1 or 0
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Dup,
    Drop,
    Over,
    Swap,
    Rot,
    Pick,
  };
  Code code;
  uint32_t number = 0;
  int64_t value = 0;
};

struct LocPiece {
  enum class Kind {
    Memory,        // ops compute the address
    Register,      // the value is in register `number` of ops[0]
    Value,         // ops compute the value itself (DW_OP_stack_value)
    Bytes,         // a constant: `bytes`; padding is zeros
    OptimizedOut,  // not there at this instruction; `reason` says what is known
  };
  Kind kind = Kind::OptimizedOut;
  std::vector<LocOp> ops;
  std::vector<uint8_t> bytes;
  uint64_t bit_size = 0;    // 0: the whole variable
  uint64_t bit_offset = 0;  // within the register or memory named
  std::string reason;
};

// A variable's place: one piece, or several that make it up in order (Go's strings and slices in registers).
struct Location {
  std::vector<LocPiece> pieces;

  // Every piece of it is there.
  bool is_available() const;
  // The common simple shapes, for printers that know only these.
  std::optional<uint32_t> as_register() const;
  struct Based {
    uint32_t base;
    int64_t offset;
  };
  std::optional<Based> as_memory_at_register() const;
  std::optional<ImageAddr> as_static_address() const;
};

}  // namespace uscope::image
