#include "x86/faults.h"

#include <algorithm>
#include <array>

#include "x86/stack_depth.h"
#include "x86/zydis.h"

namespace uscope::x86 {
namespace {

bool is_harmless(const ZydisDecodedInstruction& z) {
  switch (z.meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
      return true;
    default:
      // It goes by the frame's own register.
      return z.mnemonic == ZYDIS_MNEMONIC_LEAVE;
  }
}

bool divides_or_traps(const ZydisDecodedInstruction& z) {
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
      return true;
    default:
      return false;
  }
}

bool is_surely_mapped(const ZydisDecodedOperand& memory) {
  if (memory.mem.type == ZYDIS_MEMOP_TYPE_AGEN) return true;
  if (memory.mem.index != ZYDIS_REGISTER_NONE) return false;
  if (memory.mem.base == ZYDIS_REGISTER_RSP || memory.mem.base == ZYDIS_REGISTER_RIP) return true;
  const bool is_thread_own =
      memory.mem.segment == ZYDIS_REGISTER_FS || memory.mem.segment == ZYDIS_REGISTER_GS;
  return is_thread_own && memory.mem.base == ZYDIS_REGISTER_NONE;
}

// A call is taken to come back with the stack as it was.
bool keeps_stack(const Instruction& i, Bytes bytes) {
  return i.kind == Kind::call || i.kind == Kind::indirect_call || !i.falls_through() ||
         stack_change(bytes.first(i.length)) == 0;
}

}  // namespace

bool may_fault(Bytes instruction) {
  ZydisDecodedInstruction z;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis_decoder(), instruction.data(), instruction.size(), &z,
                                           operands.data())))
    return true;
  if (is_harmless(z)) return false;
  return divides_or_traps(z) ||
         std::any_of(operands.begin(), operands.begin() + z.operand_count, [](const auto& operand) {
           return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && !is_surely_mapped(operand);
         });
}

bool is_return_address_on_top(const CodeRange& function, uint64_t address) {
  if (!function.contains(address)) return false;
  Decoder decoder(function.bytes, function.address);
  while (decoder.position() < address) {
    const Bytes bytes = function.bytes.subspan(decoder.position() - function.address);
    const auto i = decoder.next();
    if (!i || !i->falls_through() || !keeps_stack(*i, bytes)) return false;
  }
  return decoder.position() == address;
}

bool is_return_address_on_top(const Flow& flow, uint64_t address) {
  if (flow.parts().empty() || !flow.find(address)) return false;
  if (!flow.has_leader(flow.entry() + 1, address + 1) &&
      is_return_address_on_top(flow.parts().front(), address))
    return true;
  return std::ranges::all_of(flow.instructions(),
                             [&](const Instruction& i) { return keeps_stack(i, flow.bytes_at(i.address)); });
}

}  // namespace uscope::x86
