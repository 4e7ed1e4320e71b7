// eBPF instructions -> x86-64, one code at a time, into an assembler that a code area shares. The registers
// are the kernel's own mapping (R0 rax, R1 rdi, R2 rsi, R3 rdx, R4 rcx, R5 r8, R6 rbx, R7 r13, R8 r14, R9
// r15), so that the runtime's calls find their arguments in place; r12 is the thread's slot; r9, r10 and r11
// are free for the translation. What is around the code (finding the slot, saving registers) is probe_body's.
// Parts by file: translator.cpp (the walk, jumps, memory), translate_alu.cpp, translate_call.cpp.
#pragma once

#include <asmjit/x86.h>

#include <vector>

#include "codegen/program.h"
#include "engine/inproc/code/code_facts.h"
#include "engine/inproc/runtime/shared_plan.h"

namespace uscope::engine::inproc {

// Where what the code refers to lies in the process.
struct AreaPlaces {
  uint64_t blob = 0;
  uint64_t shared = 0;
  uint64_t private_memory = 0;
};

class Translator {
 public:
  Translator(asmjit::x86::Assembler& out, const codegen::Code& code, const CodeFacts& facts,
             const SharedPlan& plan, const AreaPlaces& places);

  // All functions of the code. The first one ends with a jump to `end`, R0 in rax.
  Status run(asmjit::Label end);

  // The general registers that the code changes, as bits of asmjit's (the hardware's) numbers.
  uint32_t clobbered() const;

 private:
  using Gp = asmjit::x86::Gp;

  static Gp reg(uint32_t number);    // 64 bits
  static Gp reg32(uint32_t number);  // its lower half
  // The memory that a base register and an offset name; the frame and the context are at fixed places.
  asmjit::x86::Mem memory(uint32_t base, int32_t offset, uint32_t size);

  // translator.cpp
  Status instruction(uint32_t at);
  void begin_function(size_t function);
  void end_function(bool is_last);
  void load_wide(uint32_t at);
  Status load(uint32_t at);
  Status store(uint32_t at);
  Status atomic(uint32_t at);
  void atomic_on_own(const bpf_insn& i, const asmjit::x86::Mem& place, uint32_t size);
  Status jump(uint32_t at);
  void may_goto(uint32_t at);

  // translate_alu.cpp
  Status alu(uint32_t at);
  void move(const bpf_insn& i, bool is_wide);
  void shift(const bpf_insn& i, bool is_wide);
  void divide(const bpf_insn& i, bool is_wide);
  Status swap_bytes(const bpf_insn& i);

  // translate_call.cpp
  Status call(uint32_t at);
  void call_runtime(std::string_view symbol);

  std::unexpected<Error> refuse(uint32_t at, const char* why) const;

  asmjit::x86::Assembler& out_;
  const codegen::Code& code_;
  const CodeFacts& facts_;
  const SharedPlan& plan_;
  AreaPlaces places_;
  std::vector<asmjit::Label> labels_;     // by instruction
  std::vector<asmjit::Label> functions_;  // their entries
  std::vector<asmjit::Label> callbacks_;  // what the runtime calls
  asmjit::Label end_;
  size_t function_ = 0;
};

}  // namespace uscope::engine::inproc
