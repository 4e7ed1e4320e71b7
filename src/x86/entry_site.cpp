#include "x86/entry_site.h"

#include "x86/effects.h"
#include "x86/go_prologue.h"
#include "x86/stack_depth.h"
#include "x86/zydis.h"

namespace uscope::x86 {
namespace {

constexpr unsigned max_instructions_skipped = 12;
constexpr uint64_t page_size = 4096;

bool has_prefix(const ZydisDecodedInstruction& z, uint8_t value) {
  for (unsigned n = 0; n < z.raw.prefix_count; ++n) {
    if (z.raw.prefixes[n].value == value) return true;
  }
  return false;
}

bool is_refused(const ZydisDecodedInstruction& z, Kind kind) {
  // The kernel refuses these prefixes on any instruction: notrack jumps and the longest nops fall under it.
  for (uint8_t prefix : {0x26, 0x2e, 0x36, 0x3e, 0xf0}) {
    if (has_prefix(z, prefix)) return true;
  }
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_IN:
    case ZYDIS_MNEMONIC_OUT:
    case ZYDIS_MNEMONIC_INSB:
    case ZYDIS_MNEMONIC_INSD:
    case ZYDIS_MNEMONIC_INSW:
    case ZYDIS_MNEMONIC_OUTSB:
    case ZYDIS_MNEMONIC_OUTSD:
    case ZYDIS_MNEMONIC_OUTSW:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_CLI:
    case ZYDIS_MNEMONIC_STI:
      return true;
    default:
      break;
  }
  switch (kind) {
    case Kind::int3:
    case Kind::hlt:
    case Kind::undefined:
    case Kind::syscall:
      return true;
    case Kind::jump:
    case Kind::call:
    case Kind::conditional_jump:
      return has_prefix(z, 0x66);
    case Kind::unusual_transfer:
      return true;
    default:
      return false;
  }
}

bool is_emulated_push(const ZydisDecodedInstruction& z, Bytes bytes) {
  if (z.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT || z.opcode < 0x50 || z.opcode > 0x57) return false;
  return z.length == 1 || (z.length == 2 && bytes[0] == 0x41);
}

KernelHandling handling_of_nop(const ZydisDecodedInstruction& z, uint64_t address) {
  if (z.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) return KernelHandling::emulated;  // 90, with prefixes
  // Rewriting five bytes at once needs them in one page.
  const bool in_one_page = address % page_size + z.length <= page_size;
  return z.length == 5 && in_one_page ? KernelHandling::optimised : KernelHandling::nop_by_version;
}

// How good a site is, given what this kernel can do. Lower is better.
int rank(KernelHandling handling, bool new_nops) {
  switch (handling) {
    case KernelHandling::optimised:
      return new_nops ? 0 : 2;
    case KernelHandling::emulated:
      return 1;
    case KernelHandling::nop_by_version:
      return new_nops ? 1 : 2;
    case KernelHandling::single_stepped:
      return 2;
    case KernelHandling::refused:
      return 3;
  }
  return 3;
}

// A store into the frame that the function has made by now: below the return address, nobody's argument.
bool writes_own_frame(const Operands& operands, const EntrySite& site) {
  const Operand& to = operands.first;
  const bool plain = operands.operation == Operation::mov && to.is_memory() && to.reg == Register::rsp &&
                     to.index == Register::none && !to.segment;
  return plain && to.value >= 0 && to.value + to.bits / 8 <= site.stack_adjustment;
}

// Whether the next instruction sees the same call: this one only moves on, keeps the arguments and writes no
// memory but the stack it pushes on.
bool can_skip(const Instruction& i, Bytes bytes, RegisterSet keep, EntrySite& site) {
  if (i.kind == Kind::nop || i.kind == Kind::endbr64) return true;
  if (i.kind != Kind::other) return false;
  const auto effects = effects_of(bytes);
  const auto operands = operands_of(bytes);
  const auto change = stack_change(bytes);
  if (!effects || !operands || !change) return false;
  if (effects->writes_memory && operands->operation != Operation::push && !writes_own_frame(*operands, site))
    return false;
  const RegisterSet written = effects->written & ~bit(Register::rsp);
  if (written & (keep | system_bit)) return false;
  site.stack_adjustment -= *change;
  site.changed |= written;
  return true;
}

}  // namespace

KernelHandling kernel_handling(Bytes instruction, uint64_t address) {
  ZydisDecodedInstruction z;
  const auto decoded = decode(instruction, address);
  if (!decoded || !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&zydis_decoder(), nullptr, instruction.data(),
                                                              instruction.size(), &z))) {
    return KernelHandling::refused;
  }
  if (is_refused(z, decoded->kind)) return KernelHandling::refused;
  switch (decoded->kind) {
    case Kind::nop:
      return handling_of_nop(z, address);
    case Kind::jump:
    case Kind::call:
    case Kind::conditional_jump:
      return KernelHandling::emulated;
    default:
      break;
  }
  return is_emulated_push(z, instruction) ? KernelHandling::emulated : KernelHandling::single_stepped;
}

EntrySite cheapest_entry_site(const Flow& flow, const EntryRequest& request) {
  EntrySite here{.address = flow.entry()};
  if (request.go) {
    const auto check = find_go_stack_check(flow);
    if (check && !(check->clobbered & request.keep)) {
      here.address = check->after;
      here.changed = check->clobbered;
      here.after_go_stack_check = true;
    }
  }
  here.handling = kernel_handling(flow.bytes_at(here.address), here.address);
  EntrySite best = here;
  const RegisterSet spent = here.changed;
  // Where control may enter unseen, only the entry itself is known to be passed once.
  if (!flow.complete() && flow.gap() != Gap::falls_off_end) return best;
  for (unsigned n = 0; n < max_instructions_skipped; ++n) {
    const Instruction* i = flow.find(here.address);
    if (!i || !can_skip(*i, flow.bytes_at(here.address).first(i->length), request.keep, here)) break;
    here.address = i->end();
    if (!flow.find(here.address) || flow.is_leader(here.address)) break;
    if (request.exact && (here.stack_adjustment != 0 || here.changed != spent)) break;
    here.handling = kernel_handling(flow.bytes_at(here.address), here.address);
    if (rank(here.handling, request.new_nops) < rank(best.handling, request.new_nops)) best = here;
  }
  return best;
}

}  // namespace uscope::x86
