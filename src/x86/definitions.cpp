#include "x86/definitions.h"

#include <unordered_set>

namespace uscope::x86 {
namespace {

constexpr unsigned max_steps_per_question = 20'000;
constexpr unsigned max_copies_followed = 6;

constexpr RegisterSet callee_saved = bit(Register::rbx) | bit(Register::rbp) | bit(Register::rsp) |
                                     bit(Register::r12) | bit(Register::r13) | bit(Register::r14) |
                                     bit(Register::r15);

bool is_call(const Instruction& i) { return i.kind == Kind::call || i.kind == Kind::indirect_call; }

}  // namespace

bool DefinitionFinder::writes(const Instruction& instruction, Register reg) const {
  if (is_call(instruction) && !(callee_saved & bit(reg))) return true;
  if (instruction.kind != Kind::other && instruction.kind != Kind::syscall) return false;
  const auto effects = effects_of(graph_.bytes_of(instruction));
  return !effects || (effects->written & bit(reg)) != 0;
}

Definitions DefinitionFinder::definitions(uint64_t address, Register reg) {
  Definitions result;
  std::unordered_set<uint64_t> seen;
  std::vector<uint64_t> pending{address};
  unsigned steps = 0;
  while (!pending.empty()) {
    const uint64_t here = pending.back();
    pending.pop_back();
    bool any = false;
    graph_.for_each_predecessor(here, [&](const Instruction& before) {
      any = true;
      if (!seen.insert(before.address).second) return;
      if (writes(before, reg)) {
        result.found.push_back(&before);
      } else {
        pending.push_back(before.address);
      }
    });
    if (!any || here == graph_.entry()) result.from_outside = true;
    if (++steps > max_steps_per_question || budget_ == 0) {
      result.cut = true;
      return result;
    }
    --budget_;
  }
  return result;
}

std::optional<uint64_t> constant_of(const Instruction& instruction, const Operands& operands) {
  if (operands.operation == Operation::lea && instruction.rip_relative) return instruction.memory_target;
  if (operands.operation == Operation::mov && operands.second.is_immediate() && operands.first.bits >= 32) {
    // A 32-bit mov clears the upper half; a 64-bit one has its immediate sign-extended already.
    return operands.first.bits == 32 ? uint64_t(uint32_t(operands.second.value))
                                     : uint64_t(operands.second.value);
  }
  return std::nullopt;
}

DefinitionFinder::Constants DefinitionFinder::constants(uint64_t address, Register reg, unsigned depth) {
  Constants result;
  const Definitions definitions = this->definitions(address, reg);
  if (definitions.cut || definitions.found.empty()) result.complete = false;
  for (const Instruction* definition : definitions.found) {
    const auto operands = operands_of(graph_.bytes_of(*definition));
    if (!operands) {
      result.complete = false;
    } else if (auto value = constant_of(*definition, *operands)) {
      result.values.push_back(*value);
    } else if (operands->operation == Operation::mov && operands->second.is_register() &&
               operands->second.bits == 64 && depth < max_copies_followed) {
      Constants copied = constants(definition->address, operands->second.reg, depth + 1);
      result.values.insert(result.values.end(), copied.values.begin(), copied.values.end());
      result.complete = result.complete && copied.complete;
    } else {
      result.complete = false;
    }
  }
  std::sort(result.values.begin(), result.values.end());
  result.values.erase(std::unique(result.values.begin(), result.values.end()), result.values.end());
  return result;
}

}  // namespace uscope::x86
