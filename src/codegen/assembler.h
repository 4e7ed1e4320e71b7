// A small assembler for eBPF: typed registers, labels, maps by index. Owns the instructions until finish(),
// which drops what cannot be reached (the kernel refuses such code), resolves jumps and checks their range.
// Knows nothing of scripts.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/program.h"

namespace uscope::codegen {

enum class Reg : uint8_t { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 };
enum class Width : uint8_t { B1 = BPF_B, B2 = BPF_H, B4 = BPF_W, B8 = BPF_DW };
enum class Alu : uint8_t {
  Add = BPF_ADD,
  Sub = BPF_SUB,
  Mul = BPF_MUL,
  Div = BPF_DIV,  // unsigned; by zero gives 0
  Mod = BPF_MOD,  // unsigned; by zero gives the dividend
  And = BPF_AND,
  Or = BPF_OR,
  Xor = BPF_XOR,
  Lsh = BPF_LSH,
  Rsh = BPF_RSH,
  Arsh = BPF_ARSH,
};
enum class Cond : uint8_t {
  Eq = BPF_JEQ,
  Ne = BPF_JNE,
  Gt = BPF_JGT,
  Ge = BPF_JGE,
  Lt = BPF_JLT,
  Le = BPF_JLE,
  SGt = BPF_JSGT,
  SGe = BPF_JSGE,
  SLt = BPF_JSLT,
  SLe = BPF_JSLE,
};

Cond inverse(Cond cond);
// The width for 1, 2, 4 or 8 bytes.
Width width_of(uint64_t bytes);

class Assembler {
 public:
  struct Label {
    uint32_t id = 0;
  };

  Label label();
  void bind(Label label);

  void mov(Reg dst, Reg src) { emit(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0); }
  void mov(Reg dst, int64_t value);  // two instructions where 32 bits do not do
  void alu(Alu op, Reg dst, Reg src) { emit(BPF_ALU64 | uint8_t(op) | BPF_X, dst, src, 0, 0); }
  void alu(Alu op, Reg dst, int32_t value) { emit(BPF_ALU64 | uint8_t(op) | BPF_K, dst, Reg::R0, 0, value); }
  void neg(Reg dst) { emit(BPF_ALU64 | BPF_NEG, dst, Reg::R0, 0, 0); }
  void byte_swap(Reg dst, int32_t bits) { emit(BPF_ALU | BPF_END | BPF_TO_BE, dst, Reg::R0, 0, bits); }
  void load(Width width, Reg dst, Reg base, int32_t offset);
  void store(Width width, Reg base, int32_t offset, Reg src);
  void store(Width width, Reg base, int32_t offset, int32_t value);
  // BPF_ADD, BPF_OR, ... | BPF_FETCH, BPF_XCHG, BPF_CMPXCHG; 4 or 8 bytes.
  void atomic(int32_t op, Width width, Reg base, int32_t offset, Reg src);
  void load_map(Reg dst, uint32_t map);
  // The address of a function that finish() is given.
  void load_function(Reg dst, uint32_t function);
  void call(int32_t helper) { emit(BPF_JMP | BPF_CALL, Reg::R0, Reg::R0, 0, helper); }
  void exit() { emit(BPF_JMP | BPF_EXIT, Reg::R0, Reg::R0, 0, 0); }

  void jump(Label target);
  void jump_if(Cond cond, Reg left, Reg right, Label target);
  void jump_if(Cond cond, Reg left, int32_t right, Label target);

  // Goes on for as long as the kernel lets it, then to the target (Linux 6.9).
  void may_goto(Label target);

  // From here on R10 means this register: a function that works on its caller's stack.
  void use_frame(Reg frame) { frame_ = frame; }

  size_t size() const { return lines_.size(); }
  size_t branches() const { return branches_; }  // conditional jumps
  // What `prologue` does comes first, then this, then the functions that load_function() names by their
  // index.
  Result<Code> finish(const Assembler& prologue, const std::vector<Assembler>& functions = {}) const;

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  struct Line {
    bpf_insn instruction{};
    uint32_t target = kNowhere;    // label of a jump
    uint32_t map = kNowhere;       // of a 16-byte load; its second half follows
    uint32_t function = kNowhere;  // likewise
  };

  static bpf_insn make(uint8_t code, Reg dst, Reg src, int32_t offset, int32_t imm);
  void emit(uint8_t code, Reg dst, Reg src, int32_t offset, int32_t imm);
  std::vector<bool> reachable(const std::vector<uint32_t>& function_lines) const;
  void append(const Assembler& other);

  std::vector<Line> lines_;
  std::vector<uint32_t> labels_;  // line, by label
  size_t branches_ = 0;
  bool bad_offset_ = false;
  Reg frame_ = Reg::R10;
};

}  // namespace uscope::codegen
