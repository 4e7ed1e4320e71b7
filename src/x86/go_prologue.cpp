#include "x86/go_prologue.h"

#include "x86/effects.h"

namespace uscope::x86 {
namespace {

constexpr unsigned max_check_instructions = 8;
constexpr unsigned max_slow_path_instructions = 64;
// g.stackguard0, and stackguard1 in code that runs on the system stack.
constexpr int64_t stack_guard = 0x10, stack_guard_system = 0x18;
constexpr uint8_t jbe = 6, jb = 2;

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

class CheckReader {
 public:
  // Whether the instruction can be part of the check before its comparison.
  bool takes(const Instruction& i, const Operands& o) {
    if (i.kind != Kind::other) return false;
    switch (o.operation) {
      case Operation::mov:
        if (o.first.is_register() && o.second.is_memory() && o.second.segment) return set_g(o.first.reg);
        return o.first.is_register() && o.second.is_register() && o.second.reg == Register::rsp &&
               set_limit(o.first.reg);
      case Operation::lea:
        return o.second.reg == Register::rsp && o.second.index == Register::none && set_limit(o.first.reg);
      case Operation::sub:
        return o.first.reg == limit_ && o.second.is_immediate() && limit_ != Register::rsp;
      default:
        return false;
    }
  }
  bool is_comparison(const Operands& o) const {
    const bool of_guard = o.second.is_memory() && o.second.index == Register::none && o.second.reg == g_ &&
                          (o.second.value == stack_guard || o.second.value == stack_guard_system);
    return o.operation == Operation::cmp && o.first.is_register() && o.first.reg == limit_ && of_guard;
  }
  RegisterSet clobbered() const { return clobbered_; }

 private:
  bool set_g(Register r) {
    g_ = r;
    clobbered_ |= bit(r);
    return true;
  }
  bool set_limit(Register r) {
    if (r == Register::rsp || r == Register::none) return false;
    limit_ = r;
    clobbered_ |= bit(r);
    return true;
  }
  Register g_ = Register::r14;
  Register limit_ = Register::rsp;
  RegisterSet clobbered_ = 0;
};

}  // namespace

std::optional<GoStackCheck> find_go_stack_check(const Flow& flow) {
  CheckReader reader;
  bool compared = false;
  uint64_t address = flow.entry();
  for (unsigned n = 0; n < max_check_instructions; ++n) {
    const Instruction* i = flow.find(address);
    if (!i || (address != flow.entry() && flow.is_leader(address))) return std::nullopt;
    address = i->end();
    if (i->kind == Kind::conditional_jump) {
      if (compared && i->condition == jbe && leads_back_to_entry(flow, i->target)) {
        return GoStackCheck{.after = i->end(), .slow_path = i->target, .clobbered = reader.clobbered()};
      }
      // A huge frame is subtracted with a check for wrapping below zero.
      if (i->condition == jb && leads_back_to_entry(flow, i->target)) continue;
      return std::nullopt;
    }
    const auto operands = operands_of(flow.bytes_at(i->address).first(i->length));
    if (!operands || compared) return std::nullopt;
    compared = reader.is_comparison(*operands);
    if (!compared && !reader.takes(*i, *operands)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace uscope::x86
