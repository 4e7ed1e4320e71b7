#include "x86/decode.h"

#include <algorithm>

#include "x86/zydis.h"

namespace uscope::x86 {
namespace {

bool is_undefined(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_UD0 || m == ZYDIS_MNEMONIC_UD1 || m == ZYDIS_MNEMONIC_UD2;
}

Kind branch_kind(const ZydisDecodedInstruction& z) {
  if (z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return Kind::unusual_transfer;
  const bool direct = z.raw.imm[0].is_relative;
  // Intel ignores an operand-size prefix here, AMD truncates rip to 16 bits: nobody can say where it leads.
  // (REX.W overrides it: "66 66 48 e8" is how linkers pad the call of a thread-local variable's address.)
  const bool has_operand_size = (z.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) != 0;
  if (direct && has_operand_size && z.raw.rex.W == 0) return Kind::unusual_transfer;
  switch (z.meta.category) {
    case ZYDIS_CATEGORY_CALL:
      return direct ? Kind::call : Kind::indirect_call;
    case ZYDIS_CATEGORY_UNCOND_BR:
      return direct ? Kind::jump : Kind::indirect_jump;
    case ZYDIS_CATEGORY_RET:
      return Kind::ret;
    default:
      break;
  }
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
      return Kind::counted_jump;
    case ZYDIS_MNEMONIC_XBEGIN:
      return Kind::xbegin;
    default:
      return Kind::conditional_jump;
  }
}

Kind kind_of(const ZydisDecodedInstruction& z) {
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
      return Kind::nop;
    case ZYDIS_MNEMONIC_ENDBR64:
      return Kind::endbr64;
    case ZYDIS_MNEMONIC_INT3:
      return Kind::int3;
    case ZYDIS_MNEMONIC_HLT:
      return Kind::hlt;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_SYSCALL:
      return Kind::syscall;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_UIRET:
      return Kind::unusual_transfer;
    case ZYDIS_MNEMONIC_XABORT:
      return Kind::other;
    default:
      break;
  }
  if (is_undefined(z.mnemonic)) return Kind::undefined;
  switch (z.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
      return branch_kind(z);
    default:
      return Kind::other;
  }
}

void note_rip_relative(const ZydisDecodedInstruction& z, Instruction& i) {
  const bool has_modrm = (z.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0;
  if (!has_modrm || z.raw.modrm.mod != 0 || z.raw.modrm.rm != 5 || z.raw.disp.size != 32) return;
  i.rip_relative = true;
  i.displacement_offset = z.raw.disp.offset;
  i.memory_target = i.end() + uint64_t(z.raw.disp.value);
  // An address-size prefix wraps the sum at 4 GB.
  if (z.address_width == 32) i.memory_target &= 0xffffffff;
}

void note_branch(const ZydisDecodedInstruction& z, Instruction& i) {
  if (!z.raw.imm[0].is_relative || i.kind == Kind::unusual_transfer) return;
  i.relative_offset = z.raw.imm[0].offset;
  i.relative_size = z.raw.imm[0].size / 8;
  i.target = i.end() + uint64_t(z.raw.imm[0].value.s);
  if (i.kind == Kind::conditional_jump) i.condition = z.opcode & 0x0f;
}

}  // namespace

const ZydisDecoder& zydis_decoder() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  return decoder;
}

std::optional<Instruction> decode(Bytes code, uint64_t address) {
  ZydisDecodedInstruction z;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&zydis_decoder(), nullptr, code.data(), code.size(), &z))) {
    return std::nullopt;
  }
  Instruction i;
  i.address = address;
  i.length = z.length;
  i.mnemonic = uint16_t(z.mnemonic);
  i.kind = kind_of(z);
  if (const ZydisAccessedFlags* flags = z.cpu_flags) {
    i.flags_read = flags->tested;
    i.flags_written = flags->modified | flags->set_0 | flags->set_1 | flags->undefined;
  }
  note_rip_relative(z, i);
  note_branch(z, i);
  return i;
}

bool has_number(Bytes instruction, uint32_t number) {
  ZydisDecodedInstruction z;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&zydis_decoder(), nullptr, instruction.data(),
                                                  instruction.size(), &z)))
    return false;
  Instruction i;
  note_rip_relative(z, i);
  if (z.raw.disp.size == 32 && !i.rip_relative && uint32_t(z.raw.disp.value) == number) return true;
  return std::ranges::any_of(z.raw.imm, [&](const auto& immediate) {
    return immediate.size >= 32 && !immediate.is_relative && immediate.value.u == number;
  });
}

std::optional<Instruction> Decoder::next() {
  auto instruction = decode(code_.subspan(offset_), position());
  if (instruction) offset_ += instruction->length;
  return instruction;
}

}  // namespace uscope::x86
