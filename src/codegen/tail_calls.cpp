#include "codegen/tail_calls.h"

#include "codegen/gate.h"

namespace uscope::codegen {
namespace {

using enum Reg;

// In pt_regs.
constexpr int32_t flags_offset = 144;
constexpr int32_t stack_pointer_offset = 152;

// A mark's key, on the stack: thread, stack pointer, cookie. Its value says how far the call has come.
constexpr int32_t key_offset = -24;
constexpr int32_t value_offset = -32;
constexpr uint32_t key_size = 24;
constexpr int32_t jumped = 1, taken_up = 2;
// Each is a call on its way from a jump to its return. What is abandoned goes first when it is full.
constexpr uint32_t most_marks = 16384;

constexpr uint32_t carry = 1 << 0, parity = 1 << 2, zero = 1 << 6, sign = 1 << 7, overflow = 1 << 11;

class TailGate : public Gate {
 public:
  void require(uint8_t condition);
  void load_key();
  // R0 = the mark's value, or out.
  void find_mark(uint32_t map) { lookup(map, key_offset, out()); }
  void drop_mark(uint32_t map) { remove(map, key_offset); }
  void set_mark(uint32_t map, int32_t value);
  void require_value(int32_t value);
  void take_up(uint32_t map);
  void pass_on();
};

// R1 becomes other than zero when the condition of even number holds.
void TailGate::require(uint8_t condition) {
  static constexpr uint32_t masks[] = {overflow, carry, zero, carry | zero, sign, parity};
  asm_.load(Width::B8, R1, R6, flags_offset);
  uint8_t kind = condition >> 1;
  if (kind < std::size(masks)) {
    asm_.alu(Alu::And, R1, int32_t(masks[kind]));
  } else {
    // Less: sign and overflow differ. Less or equal: or zero.
    asm_.mov(R2, R1);
    asm_.mov(R3, R1);
    asm_.alu(Alu::Rsh, R1, 7);
    asm_.alu(Alu::Rsh, R2, 11);
    asm_.alu(Alu::Xor, R1, R2);
    if (kind == 7) {
      asm_.alu(Alu::Rsh, R3, 6);
      asm_.alu(Alu::Or, R1, R3);
    }
    asm_.alu(Alu::And, R1, 1);
  }
  asm_.jump_if(condition & 1 ? Cond::Ne : Cond::Eq, R1, 0, out());
}

void TailGate::load_key() {
  asm_.call(BPF_FUNC_get_current_pid_tgid);
  asm_.store(Width::B8, R10, key_offset, R0);
  asm_.load(Width::B8, R1, R6, stack_pointer_offset);
  asm_.store(Width::B8, R10, key_offset + 8, R1);
  asm_.mov(R1, R6);
  asm_.call(BPF_FUNC_get_attach_cookie);
  asm_.store(Width::B8, R10, key_offset + 16, R0);
}

void TailGate::set_mark(uint32_t map, int32_t value) {
  asm_.store(Width::B8, R10, value_offset, value);
  update(map, key_offset, value_offset);
}

void TailGate::require_value(int32_t value) {
  asm_.load(Width::B8, R1, R0, 0);
  asm_.jump_if(Cond::Ne, R1, value, out());
}

void TailGate::take_up(uint32_t map) {
  Assembler::Label stale = asm_.label();
  asm_.load(Width::B8, R1, R0, 0);
  asm_.jump_if(Cond::Ne, R1, jumped, stale);
  asm_.store(Width::B8, R0, 0, taken_up);
  asm_.jump(out());
  asm_.bind(stale);
  drop_mark(map);
}

void TailGate::pass_on() {
  require_value(taken_up);
  asm_.store(Width::B8, R0, 0, jumped);
}

}  // namespace

uint32_t TailCalls::marks() {
  if (!marks_) {
    marks_ = uint32_t(program_.maps.size());
    program_.maps.push_back({"tail_calls", MapKind::LruHash, key_size, 8, most_marks});
  }
  return *marks_;
}

Result<uint32_t> TailCalls::made(Part part, std::optional<uint32_t> code, JumpCondition condition) {
  Question question{part, code.value_or(UINT32_MAX), condition.value_or(16)};
  if (auto found = made_.find(question); found != made_.end()) return found->second;
  TailGate gate;
  if (condition) gate.require(*condition);
  if (part != Part::OnlyIf && part != Part::Count) gate.load_key();
  switch (part) {
    case Part::LeaveMark:
      gate.set_mark(marks(), jumped);
      break;
    case Part::TakeUp:
      gate.find_mark(marks());
      gate.take_up(marks());
      break;
    case Part::PassOn:
      gate.find_mark(marks());
      gate.pass_on();
      break;
    case Part::Finish:
      gate.find_mark(marks());
      gate.require_value(taken_up);
      gate.drop_mark(marks());
      break;
    case Part::Count:
      gate.count(*unreported_, 0, value_offset);
      break;
    case Part::OnlyIf:
      break;
  }
  const Code* then = code ? &program_.codes[*code] : nullptr;
  TRY(Code result, std::move(gate).finish(then));
  result.name = then != nullptr ? then->name : "tail call";
  result.kind = CodeKind::UserProbe;
  auto number = uint32_t(program_.codes.size());
  program_.codes.push_back(std::move(result));
  made_[question] = number;
  return number;
}

Result<uint32_t> TailCalls::leave_mark(JumpCondition condition) {
  return made(Part::LeaveMark, {}, condition);
}
Result<uint32_t> TailCalls::take_up() { return made(Part::TakeUp, {}, {}); }
Result<uint32_t> TailCalls::pass_on(JumpCondition condition) { return made(Part::PassOn, {}, condition); }
Result<uint32_t> TailCalls::finish(uint32_t code) { return made(Part::Finish, code, {}); }
Result<uint32_t> TailCalls::only_if(uint32_t code, JumpCondition condition) {
  if (!condition) return code;
  return made(Part::OnlyIf, code, condition);
}
Result<uint32_t> TailCalls::count(JumpCondition condition) {
  if (!unreported_) {
    unreported_ = uint32_t(program_.maps.size());
    program_.maps.push_back({"unreported", MapKind::PerCpuArray, 4, 8, 1});
  }
  return made(Part::Count, {}, condition);
}

}  // namespace uscope::codegen
