#include "x86/stack_depth.h"

#include <array>

namespace uscope::x86 {
namespace {

// For each general register: its distance from the entry's rsp, where known.
class Offsets {
 public:
  Offsets() { set(Register::rsp, 0); }

  std::optional<int64_t> get(Register r) const {
    if (r == Register::none || !(known_ & bit(r))) return std::nullopt;
    return values_[unsigned(r)];
  }
  void set(Register r, std::optional<int64_t> value) {
    if (r == Register::none) return;
    known_ = value ? known_ | bit(r) : known_ & ~bit(r);
    if (value) values_[unsigned(r)] = *value;
  }
  void forget(RegisterSet set) { known_ &= ~set; }

 private:
  std::array<int64_t, 16> values_{};
  RegisterSet known_ = 0;
};

// Wraps: the constants come from the code and may be anything.
int64_t sum(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }

std::optional<int64_t> plus(std::optional<int64_t> value, int64_t constant) {
  return value ? std::optional(sum(*value, constant)) : std::nullopt;
}

std::optional<int64_t> lea_value(const Operand& memory, const Offsets& offsets) {
  if (memory.index != Register::none || memory.rip_base) return std::nullopt;
  return plus(offsets.get(memory.reg), memory.value);
}

// gcc keeps the incoming argument pointer in a register when it realigns the stack, and ends with
// `lea -8(%reg),%rsp`: that is the entry's rsp, wherever the register was kept meanwhile.
bool undoes_realignment(const Operands& o) {
  return o.operation == Operation::lea && o.first.reg == Register::rsp && o.second.index == Register::none &&
         o.second.value == -8 && o.second.reg != Register::rsp && o.second.reg != Register::rbp;
}

void step(const Operands& o, const Effects& effects, Offsets& offsets) {
  const int64_t width = o.first.bits == 16 ? 2 : 8;
  const auto rsp = offsets.get(Register::rsp);
  const bool to_register = o.first.is_register() && o.first.bits == 64;
  std::optional<int64_t> result;
  switch (o.operation) {
    case Operation::push:
      offsets.set(Register::rsp, plus(rsp, -width));
      return;
    case Operation::pop:
      offsets.forget(effects.written);
      if (o.first.reg != Register::rsp) offsets.set(Register::rsp, plus(rsp, width));
      return;
    case Operation::leave:
      offsets.set(Register::rsp, plus(offsets.get(Register::rbp), 8));
      offsets.set(Register::rbp, std::nullopt);
      return;
    case Operation::mov:
      if (to_register && o.second.is_register()) result = offsets.get(o.second.reg);
      break;
    case Operation::lea:
      if (undoes_realignment(o)) {
        result = 0;
      } else if (to_register) {
        result = lea_value(o.second, offsets);
      }
      break;
    case Operation::add:
      if (to_register && o.second.is_immediate()) result = plus(offsets.get(o.first.reg), o.second.value);
      break;
    case Operation::sub:
      if (to_register && o.second.is_immediate()) {
        result = plus(offsets.get(o.first.reg), int64_t(-uint64_t(o.second.value)));
      }
      break;
    default:
      break;
  }
  offsets.forget(effects.written);
  if (o.first.is_register() && (effects.written & bit(o.first.reg))) offsets.set(o.first.reg, result);
}

constexpr RegisterSet lost_in_calls = general_registers & ~(bit(Register::rsp) | bit(Register::rbp) |
                                                            bit(Register::rbx) | (RegisterSet(0xf) << 12));

void step(const Graph& graph, const Instruction& instruction, Offsets& offsets) {
  switch (instruction.kind) {
    case Kind::call:
    case Kind::indirect_call:
      offsets.forget(lost_in_calls);
      return;
    case Kind::other:
      break;
    default:
      return;
  }
  const Bytes bytes = graph.bytes_of(instruction);
  const auto operands = operands_of(bytes);
  const auto effects = effects_of(bytes);
  if (!operands || !effects) {
    offsets.forget(general_registers);
  } else if (effects->written & general_registers) {
    step(*operands, *effects, offsets);
  }
}

}  // namespace

StackDepths::StackDepths(const Graph& graph) : graph_(graph), depths_(graph.instructions().size()) {
  std::vector<bool> seen(depths_.size());
  std::vector<std::pair<const Instruction*, Offsets>> pending;
  auto visit = [&](const Instruction& instruction, const Offsets& offsets) {
    const size_t number = graph_.index_of(instruction);
    if (seen[number]) return;
    seen[number] = true;
    depths_[number] = offsets.get(Register::rsp);
    pending.emplace_back(&instruction, offsets);
  };
  if (const Instruction* entry = graph_.at(graph_.entry())) visit(*entry, Offsets());
  while (!pending.empty()) {
    auto [instruction, offsets] = pending.back();
    pending.pop_back();
    step(graph_, *instruction, offsets);
    graph_.for_each_successor(*instruction, [&](const Instruction& next) { visit(next, offsets); });
  }
}

std::optional<int64_t> StackDepths::at(const Instruction& instruction) const {
  return depths_[graph_.index_of(instruction)];
}

std::optional<int64_t> stack_change(Bytes instruction) {
  const auto operands = operands_of(instruction);
  const auto effects = effects_of(instruction);
  if (!operands || !effects) return std::nullopt;
  Offsets offsets;
  if (effects->written & general_registers) step(*operands, *effects, offsets);
  return offsets.get(Register::rsp);
}

}  // namespace uscope::x86
