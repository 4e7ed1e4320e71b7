// eBPF instructions -> x86-64, one code at a time, into an assembler that a code area shares. The registers
// are the kernel's own mapping (R0 rax, R1 rdi, R2 rsi, R3 rdx, R4 rcx, R5 r8, R6 rbx, R7 r13, R8 r14, R9
// r15), so that the runtime's calls find their arguments in place; r12 is the thread's slot; r9, r10 and r11
// are free for the translation. What is around the code (finding the slot, saving registers) is probe_body's.
// Parts by file: translator.cpp (the walk, jumps, memory), translate_alu.cpp, translate_atomic.cpp,
// translate_call.cpp, translate_pairing.cpp.
#pragma once

#include <asmjit/x86.h>

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "codegen/program.h"
#include "engine/inproc/code/code_facts.h"
#include "engine/inproc/code/value_flow.h"
#include "engine/inproc/runtime/shared_plan.h"

namespace uscope::engine::inproc {

// Where what the code refers to lies in the process.
struct AreaPlaces {
  uint64_t blob = 0;
  uint64_t shared = 0;
  uint64_t private_memory = 0;
  uint64_t maps = 0;  // the MapInfos
};

enum class Version { Quick, Full };

class Translator {
 public:
  Translator(asmjit::x86::Assembler& out, const codegen::Code& code, const CodeFacts& facts,
             const ValueFlow& flow, const SharedPlan& plan, const AreaPlaces& places);

  // Before anything else.
  void prepare();
  // Whether a hit can be handled without a call of the runtime.
  bool has_quick_version() const { return has_quick_; }
  // All functions of the code. The first one ends at `end`, or with a jump to it, R0 in rax.
  Status run(Version version, asmjit::Label end);
  // Behind the quick version: the ways into the full one. `save_rest` keeps the registers that the full
  // version changes and the quick one does not, and goes over to the thread's stack.
  void emit_upgrades(const std::function<void()>& save_rest);
  // Behind the full version: what is seldom run, and constants.
  void emit_rest();

  // The general registers that a version changes, as bits of asmjit's (the hardware's) numbers.
  uint32_t clobbered(Version version) const;

 private:
  using Gp = asmjit::x86::Gp;
  using Label = asmjit::Label;

  static Gp reg(uint32_t number);    // 64 bits
  static Gp reg32(uint32_t number);  // its lower half
  // R10 of the first function and R6 where it is the context: kept in no register, but at fixed places.
  bool is_place(uint32_t number) const;
  // The memory that a base register and an offset name.
  asmjit::x86::Mem memory(uint32_t base, int32_t offset, uint32_t size);
  Label label(uint32_t at) const { return labels_[size_t(version_)][at]; }
  bool is_emitted(uint32_t at, Version version) const;
  // Cannot be done by the quick version.
  bool needs_full(uint32_t at) const;
  void find_quick();
  uint32_t clobbers(uint32_t at) const;

  // translator.cpp
  Status instruction(uint32_t at);
  void begin_function(size_t function);
  void end_function(uint32_t at);
  void load_wide(uint32_t at);
  Status load(uint32_t at);
  Status store(uint32_t at);
  Status jump(uint32_t at);
  void jump_always(uint32_t at, uint32_t target);
  void may_goto(uint32_t at);

  // translate_atomic.cpp
  Status atomic(uint32_t at);
  void atomic_on_own(const bpf_insn& i, const asmjit::x86::Mem& place, uint32_t size);
  void fetch_in_turns(const bpf_insn& i, const asmjit::x86::Mem& place, uint32_t size);

  // translate_alu.cpp
  Status alu(uint32_t at);
  void move(const bpf_insn& i, bool is_wide);
  void shift(const bpf_insn& i, bool is_wide);
  void divide(const bpf_insn& i, bool is_wide);
  Status swap_bytes(const bpf_insn& i);
  void find_bit_searches();
  void search_bit(uint32_t low);

  // translate_call.cpp
  bool can_inline(uint32_t at) const;
  Status call(uint32_t at);
  void call_runtime(uint32_t at);
  void inline_call(uint32_t at);
  void lookup_in_array(const MapInfo& map, int32_t key, Label miss);
  void lookup_in_hash(const MapInfo& map, int32_t key, Label miss);
  void lookup_only_key(const MapInfo& map, int32_t key, Label miss);
  void read_clock(size_t base, Label miss);
  void read_pid_tgid(Label miss);

  // translate_pairing.cpp
  static bool is_pairing(const bpf_insn& call);
  void check_ticks(Label miss);
  void enter_function(Label miss);
  void leave_function(Label miss);
  asmjit::x86::Mem constant(uint64_t value);
  Label full_miss(uint32_t at);

  std::unexpected<Error> refuse(uint32_t at, const char* why) const;

  // A call that could not be served in place.
  struct Miss {
    uint32_t at = 0;
    Label here, back;
  };

  asmjit::x86::Assembler& out_;
  const codegen::Code& code_;
  const CodeFacts& facts_;
  const ValueFlow& flow_;
  const SharedPlan& plan_;
  AreaPlaces places_;
  bool has_quick_ = false;
  std::vector<bool> quick_;                // instructions of the quick version
  std::map<uint32_t, uint32_t> searches_;  // for the highest bit, by their first instruction: the bit's place
  std::vector<bool> is_in_search_;         // their other instructions
  std::vector<Label> labels_[2];           // by version and instruction
  std::vector<Label> functions_;           // their entries
  std::vector<Label> callbacks_;           // what the runtime calls
  std::vector<Miss> upgrades_, misses_;    // of the quick and of the full version
  std::map<uint32_t, Label> full_misses_;  // by instruction: where a lookup goes that found nothing
  std::vector<std::pair<uint64_t, Label>> constants_;
  Label end_;
  Version version_ = Version::Full;
  size_t function_ = 0;
};

}  // namespace uscope::engine::inproc
