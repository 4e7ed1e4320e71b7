#include "x86/entry_step.h"

#include "x86/decode.h"
#include "x86/effects.h"
#include "x86/zydis.h"

namespace uscope::x86 {
namespace {

constexpr int64_t most_stack = int64_t(1) << 30;
constexpr int64_t most_distance = 4096;

// What compilers begin functions with, and what cannot fault but by its memory operand.
bool is_plain(uint16_t mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_LEA:
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_NOT:
    case ZYDIS_MNEMONIC_NEG:
    case ZYDIS_MNEMONIC_INC:
    case ZYDIS_MNEMONIC_DEC:
    case ZYDIS_MNEMONIC_SHL:
    case ZYDIS_MNEMONIC_SHR:
    case ZYDIS_MNEMONIC_SAR:
    case ZYDIS_MNEMONIC_IMUL:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
      return true;
    default:
      return false;
  }
}

// The image's own data, a thread's, and the arguments on the stack.
bool is_surely_mapped(const Operand& memory) {
  if (memory.index != Register::none) return false;
  if (memory.rip_base) return true;
  if (memory.segment) return memory.reg == Register::none;
  return memory.reg == Register::rsp && memory.value >= 0 && memory.value < most_distance;
}

// `cmp 16(%r14),%rsp`: where a goroutine's stack ends is always to be read.
bool is_go_stack_check(const Operands& operands) {
  const Operand &stack = operands.first, &memory = operands.second;
  return operands.operation == Operation::cmp && stack.is_register() && stack.reg == Register::rsp &&
         memory.is_memory() && memory.reg == Register::r14 && memory.index == Register::none &&
         memory.value == 16;
}

// Of a 64-bit register or a constant; nothing else: it might read memory.
bool is_plain_push(const Operands& operands) {
  return operands.operation == Operation::push &&
         ((operands.first.is_register() && operands.first.bits == 64) || operands.first.is_immediate());
}

std::optional<int64_t> stack_change(const Operands& operands) {
  const Operand &to = operands.first, &by = operands.second;
  if (!to.is_register() || to.reg != Register::rsp || to.bits != 64) return std::nullopt;
  if (operands.operation == Operation::sub && by.is_immediate()) return -by.value;
  if (operands.operation == Operation::add && by.is_immediate()) return by.value;
  const bool is_own = by.reg == Register::rsp && by.index == Register::none && !by.segment && !by.rip_base;
  if (operands.operation == Operation::lea && is_own) return by.value;
  return std::nullopt;
}

// 50 to 57, and 41 before them for r8 to r15: what most functions begin with.
bool is_short_push(Bytes instruction) {
  const size_t at = instruction.size() == 2 && instruction[0] == 0x41 ? 1 : 0;
  return instruction.size() == at + 1 && (instruction[at] & 0xf8) == 0x50;
}

}  // namespace

std::optional<EntryStep> entry_step(Bytes instruction) {
  const auto length = unsigned(instruction.size());
  if (is_short_push(instruction)) return EntryStep{length, length, -8};
  const auto i = decode(instruction, 0);
  if (!i) return std::nullopt;
  if (i->kind == Kind::endbr64 || i->kind == Kind::nop) return EntryStep{length, length};
  if (i->kind != Kind::other) return std::nullopt;
  const auto operands = operands_of(instruction);
  if (!operands) return std::nullopt;
  if (is_plain_push(*operands)) return EntryStep{length, length, -8};
  const auto effects = effects_of(instruction);
  if (!effects || !is_plain(i->mnemonic) || effects->writes_memory || (effects->written & system_bit) != 0)
    return std::nullopt;
  if (effects->reads_memory) {
    const Operand& memory = operands->first.is_memory() ? operands->first : operands->second;
    if (!memory.is_memory() || !(is_surely_mapped(memory) || is_go_stack_check(*operands)))
      return std::nullopt;
  }
  EntryStep step{length, length};
  if (effects->written & bit(Register::rsp)) {
    const auto change = stack_change(*operands);
    if (!change || *change > most_stack || *change < -most_stack) return std::nullopt;
    step.stack_change = int32_t(*change);
  }
  step.changed = effects->written & ~bit(Register::rsp);
  step.can_repeat = effects->flags_written != 0 && (effects->read & effects->written) == 0;
  return step;
}

std::optional<EntryStep> step_behind_entry(Bytes function, RegisterSet read, bool past_marks) {
  const auto first = decode(function, 0);
  if (!first) return std::nullopt;
  auto step = entry_step(function.first(first->length));
  if (!step || (step->changed & read) != 0) return std::nullopt;
  const bool is_mark = first->kind == Kind::endbr64 || first->kind == Kind::nop;
  if (!is_mark || !past_marks) return step;
  const auto second = decode(function.subspan(first->length), 0);
  if (!second) return step;
  auto both = entry_step(function.subspan(first->length, second->length));
  if (!both || (both->changed & read) != 0) return step;
  both->length += step->length;
  return both;
}

}  // namespace uscope::x86
