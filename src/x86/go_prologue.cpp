#include "x86/go_prologue.h"

#include "x86/effects.h"

namespace uscope::x86 {
namespace {

constexpr unsigned max_check_instructions = 10;
constexpr unsigned max_slow_path_instructions = 64;
// g.stackguard0, and stackguard1 in code that runs on the system stack.
constexpr int64_t stack_guard = 0x10, stack_guard_system = 0x18;
constexpr uint8_t jbe = 6;  // the opcode's low four bits

// The slow path saves what it must, calls runtime.morestack and jumps to the entry.
bool leads_back_to_entry(const Flow& flow, uint64_t address) {
  bool called = false;
  for (unsigned n = 0; n < max_slow_path_instructions; ++n) {
    const Instruction* i = flow.find(address);
    if (!i) return false;
    if (i->kind == Kind::jump && i->target == flow.entry()) return called;
    if (i->kind == Kind::jump) {
      address = i->target;
      continue;
    }
    if (i->kind == Kind::call) called = true;
    if (!i->falls_through()) return false;
    address = i->end();
  }
  return false;
}

// Reads g's stack limit: 0x10(%r14), or 0x10 of the register that g was just loaded into.
bool reads_guard(const Operand& memory, Register g) {
  return memory.is_memory() && memory.reg == g && memory.index == Register::none &&
         (memory.value == stack_guard || memory.value == stack_guard_system);
}

}  // namespace

std::optional<GoStackCheck> find_go_stack_check(const Flow& flow) {
  std::optional<GoStackCheck> found;
  Register g = Register::r14;
  bool guarded = false;
  RegisterSet clobbered = 0;
  uint64_t address = flow.entry();
  for (unsigned n = 0; n < max_check_instructions; ++n) {
    const Instruction* i = flow.find(address);
    if (!i || (address != flow.entry() && flow.is_leader(address))) break;
    address = i->end();
    if (i->kind == Kind::conditional_jump) {
      if (!leads_back_to_entry(flow, i->target)) break;
      if (guarded && i->condition == jbe)
        found = {.after = i->end(), .slow_path = i->target, .clobbered = clobbered};
      if (found) break;
      continue;
    }
    // Up to there it only computes in registers.
    const Bytes bytes = flow.bytes_at(i->address).first(i->length);
    const auto operands = operands_of(bytes);
    const auto effects = effects_of(bytes);
    if (i->kind != Kind::other || !operands || !effects || effects->writes_memory) break;
    if (effects->written & bit(Register::rsp)) break;
    clobbered |= effects->written & general_registers;
    if (operands->operation == Operation::mov && operands->second.is_memory() && operands->second.segment) {
      g = operands->first.reg;
    }
    guarded = guarded || reads_guard(operands->second, g);
  }
  return found;
}

}  // namespace uscope::x86
