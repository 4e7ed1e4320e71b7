// The compiler's own check of a switch index: `cmp $N,%idx; ja default` or `and $N,%idx`. Walks backwards
// from the load of the table entry along the only path there is, following the index through copies.
#include "x86/jump_table.h"

namespace uscope::x86 {
namespace {

constexpr unsigned max_steps = 48;

// Conditions as in the opcode's low four bits.
constexpr uint8_t below = 0x2, above_or_equal = 0x3, below_or_equal = 0x6, above = 0x7;

constexpr uint8_t unknown = 0xff;

// How many indices there are for which, after `cmp $limit, index`, the condition holds.
std::optional<uint32_t> entries_allowed(int64_t limit, uint8_t holds) {
  if (limit < 0 || limit > 0xfffff) return std::nullopt;
  if (holds == below_or_equal) return uint32_t(limit) + 1;
  if (holds == below && limit > 0) return uint32_t(limit);
  return std::nullopt;
}

bool same_place(const Operand& a, const Operand& b) {
  if (a.kind != b.kind) return false;
  if (a.is_register()) return a.reg == b.reg;
  return a.is_memory() && a.reg == b.reg && a.index == b.index && a.scale == b.scale && a.value == b.value &&
         a.segment == b.segment && a.rip_base == b.rip_base;
}

// Follows one value backwards through copies.
class IndexTrail {
 public:
  explicit IndexTrail(Register index) : place_{.kind = Operand::Kind::general_register, .reg = index} {}

  bool is_here(const Operand& operand) const { return same_place(place_, operand); }
  // Steps back over an instruction. False: the value is made here in a way that loses the trail.
  bool step_over(const Operands& operands, const Effects& effects) {
    if (place_.is_register()) {
      if (!(effects.written & bit(place_.reg))) return true;
      const bool copies =
          operands.operation == Operation::mov || operands.operation == Operation::zero_extend;
      if (!copies || !is_here(operands.first)) return false;
      if (!operands.second.is_register() && !operands.second.is_memory()) return false;
      place_ = operands.second;
      return true;
    }
    const RegisterSet address = bit(place_.reg) | bit(place_.index);
    return !(effects.written & address) && !effects.writes_memory;
  }

 private:
  Operand place_;
};

}  // namespace

IndexBound JumpResolver::index_bound(const Instruction& load, Register index) {
  IndexTrail trail(index);
  uint8_t holds = unknown;  // what the nearest unsigned comparison said on our path
  uint64_t at = load.address;
  for (unsigned step = 0; step < max_steps; ++step) {
    const Instruction* before = nullptr;
    unsigned ways = 0;
    graph_.for_each_predecessor(at, [&](const Instruction& i) { before = &i, ++ways; });
    if (ways != 1) return {};
    const bool jumped = before->end() != at || before->kind == Kind::jump;
    at = before->address;
    if (before->kind == Kind::conditional_jump) {
      const uint8_t c = before->condition;
      const bool is_bound = c == below || c == above_or_equal || c == below_or_equal || c == above;
      if (is_bound && before->end() != before->target) holds = jumped ? c : c ^ 1;
      continue;
    }
    if (before->kind == Kind::jump || before->kind == Kind::nop || before->kind == Kind::endbr64) continue;
    if (before->kind != Kind::other) return {};
    const auto operands = operands_of(graph_.bytes_of(*before));
    const auto effects = effects_of(graph_.bytes_of(*before));
    if (!operands || !effects) return {};
    if (operands->second.is_immediate() && trail.is_here(operands->first)) {
      if (operands->operation == Operation::cmp && holds != unknown) {
        return {.exactly = entries_allowed(operands->second.value, holds), .at_most = std::nullopt};
      }
      if (operands->operation == Operation::and_ && operands->second.value >= 0 &&
          operands->second.value < 0xfffff) {
        return {.exactly = std::nullopt, .at_most = uint32_t(operands->second.value) + 1};
      }
    }
    if (effects->flags_written & (carry_flag | zero_flag)) holds = unknown;
    if (!trail.step_over(*operands, *effects)) return {};
  }
  return {};
}

}  // namespace uscope::x86
