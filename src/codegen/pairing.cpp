#include "codegen/pairing.h"

#include "codegen/frame.h"
#include "codegen/gate.h"

namespace uscope::codegen {
namespace {

using enum Reg;

// In pt_regs.
constexpr int32_t goroutine_register = 8, stack_pointer_register = 152;  // r14, sp

// On the stack. A call's key: who, how deep, cookie. Its value: when.
constexpr int32_t key_place = -40, who = -40, depth = -32, cookie = -24;
constexpr int32_t time_place = -48, read_place = -56, room = -64;
constexpr uint32_t key_size = 24, value_size = 8;
// Calls that have begun and not ended, of all threads. What is abandoned goes first when it is full.
constexpr uint32_t most_calls = 32768;
// runtime.g begins with the stack's bounds, "known to the C linkers" in every version.
constexpr int32_t stack_top_in_g = 8;

class PairGate : public Gate {
 public:
  void remember(const PairedBy& by, uint32_t calls, uint32_t counters);
  void find_again(const PairedBy& by, uint32_t calls, uint32_t counters);
  void remember_in_engine(uint32_t counters);
  void find_again_in_engine(uint32_t counters);

 private:
  void load_key(const PairedBy& by);
  void load_goroutine(const PairedBy& by);
  void load_stack_pointer(const PairedBy& by);
  void read_of_goroutine(int64_t offset);
  // In front of what runs where all is well.
  void count_unpaired(uint32_t counters, Assembler::Label unpaired);
};

// R0 = eight bytes of runtime.g, which r14 points to; without them there is nothing to pair.
void PairGate::read_of_goroutine(int64_t offset) {
  asm_.load(Width::B8, R3, R6, goroutine_register);
  asm_.alu(Alu::Add, R3, int32_t(offset));
  asm_.mov(R2, 8);
  asm_.mov(R1, R10);
  asm_.alu(Alu::Add, R1, read_place);
  asm_.call(BPF_FUNC_probe_read_user);
  asm_.jump_if(Cond::Ne, R0, 0, out());
  asm_.load(Width::B8, R0, R10, read_place);
}

// Goroutines of the runtime itself (g0, for one) all have number 0, but each is there to stay.
void PairGate::load_goroutine(const PairedBy& by) {
  Assembler::Label numbered = asm_.label();
  asm_.store(Width::B8, R10, read_place, 0);
  read_of_goroutine(int64_t(*by.goid_offset));
  asm_.jump_if(Cond::Ne, R0, 0, numbered);
  asm_.load(Width::B8, R0, R6, goroutine_register);
  asm_.bind(numbered);
  asm_.store(Width::B8, R10, who, R0);
  read_of_goroutine(stack_top_in_g);
  load_stack_pointer(by);
  asm_.alu(Alu::Sub, R0, R1);
  asm_.store(Width::B8, R10, depth, R0);
  // The goroutines of two processes have the same numbers.
  asm_.call(BPF_FUNC_get_current_pid_tgid);
  asm_.alu(Alu::Rsh, R0, 32);
  asm_.alu(Alu::Lsh, R0, 32);
  asm_.load(Width::B8, R1, R10, depth);
  asm_.alu(Alu::Xor, R0, R1);
  asm_.store(Width::B8, R10, depth, R0);
}

// R1 = what it is at the function's entry.
void PairGate::load_stack_pointer(const PairedBy& by) {
  asm_.load(Width::B8, R1, R6, stack_pointer_register);
  if (by.stack_adjustment != 0) asm_.alu(Alu::Add, R1, by.stack_adjustment);
}

void PairGate::load_key(const PairedBy& by) {
  if (by.goid_offset) {
    load_goroutine(by);
  } else {
    asm_.call(BPF_FUNC_get_current_pid_tgid);
    asm_.store(Width::B8, R10, who, R0);
    load_stack_pointer(by);
    asm_.store(Width::B8, R10, depth, R1);
  }
  asm_.mov(R1, R6);
  asm_.call(BPF_FUNC_get_attach_cookie);
  asm_.store(Width::B8, R10, cookie, R0);
}

void PairGate::remember(const PairedBy& by, uint32_t calls, uint32_t counters) {
  Assembler::Label is_new = asm_.label();
  load_key(by);
  lookup(calls, key_place, is_new);
  count(counters, Pairing::kAbandoned, room);
  asm_.bind(is_new);
  // As late as can be: what this costs is not the function's time.
  asm_.call(BPF_FUNC_ktime_get_ns);
  asm_.store(Width::B8, R10, time_place, R0);
  update(calls, key_place, time_place);
}

void PairGate::count_unpaired(uint32_t counters, Assembler::Label unpaired) {
  Assembler::Label pass = asm_.label();
  asm_.jump(pass);
  asm_.bind(unpaired);
  count(counters, Pairing::kUnpaired, room);
  asm_.jump(out());
  asm_.bind(pass);
}

void PairGate::find_again(const PairedBy& by, uint32_t calls, uint32_t counters) {
  Assembler::Label unpaired = asm_.label();
  asm_.call(BPF_FUNC_ktime_get_ns);
  asm_.mov(R7, R0);
  load_key(by);
  lookup(calls, key_place, unpaired);
  asm_.load(Width::B8, R1, R0, 0);
  asm_.alu(Alu::Sub, R7, R1);
  asm_.store(Width::B8, R10, Frame::kTook.offset, R7);
  remove(calls, key_place);
  count_unpaired(counters, unpaired);
}

void PairGate::remember_in_engine(uint32_t counters) {
  asm_.call(kEnterFunction);
  asm_.jump_if(Cond::Eq, R0, 0, out());
  count(counters, Pairing::kAbandoned, room);
}

void PairGate::find_again_in_engine(uint32_t counters) {
  Assembler::Label unpaired = asm_.label();
  asm_.call(kLeaveFunction);
  asm_.jump_if(Cond::Eq, R0, -1, unpaired);
  asm_.store(Width::B8, R10, Frame::kTook.offset, R0);
  count_unpaired(counters, unpaired);
}

}  // namespace

uint32_t Pairing::calls() {
  if (!calls_) {
    calls_ = uint32_t(program_.maps.size());
    program_.maps.push_back({"calls", MapKind::LruHash, key_size, value_size, most_calls});
  }
  return *calls_;
}

Result<uint32_t> Pairing::made(const Question& question) {
  if (auto found = made_.find(question); found != made_.end()) return found->second;
  if (!counters_) {
    counters_ = uint32_t(program_.maps.size());
    program_.maps.push_back({"pairing", MapKind::PerCpuArray, 4, 8, kCounters});
  }
  // The engine's own goes by threads.
  const bool in_engine = engine_pairs_ && !question.by.goid_offset;
  const Code* then = question.code ? &program_.codes[*question.code] : nullptr;
  PairGate gate;
  if (then == nullptr && in_engine)
    gate.remember_in_engine(*counters_);
  else if (then == nullptr)
    gate.remember(question.by, calls(), *counters_);
  else if (in_engine)
    gate.find_again_in_engine(*counters_);
  else
    gate.find_again(question.by, calls(), *counters_);
  TRY(Code result, std::move(gate).finish(then));
  result.name = then != nullptr ? then->name : "entry";
  result.kind = CodeKind::UserProbe;
  const auto number = uint32_t(program_.codes.size());
  program_.codes.push_back(std::move(result));
  made_[question] = number;
  return number;
}

Result<uint32_t> Pairing::enter(const PairedBy& by) { return made({std::nullopt, by}); }
Result<uint32_t> Pairing::leave(uint32_t code, const PairedBy& by) { return made({code, by}); }

}  // namespace uscope::codegen
