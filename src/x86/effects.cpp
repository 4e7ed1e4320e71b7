#include "x86/effects.h"

#include <array>

#include "x86/zydis.h"

namespace uscope::x86 {
namespace {

struct Full {
  ZydisDecodedInstruction instruction;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
};

bool decode_full(Bytes code, Full& full) {
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis_decoder(), code.data(), code.size(), &full.instruction,
                                             full.operands.data()));
}

RegisterSet set_of(ZydisRegister reg) {
  if (reg == ZYDIS_REGISTER_NONE) return 0;
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  const int number = ZydisRegisterGetId(whole);
  switch (ZydisRegisterGetClass(whole == ZYDIS_REGISTER_NONE ? reg : whole)) {
    case ZYDIS_REGCLASS_GPR64:
      return RegisterSet(1) << (number & 15);
    case ZYDIS_REGCLASS_ZMM:
      return vector_bit(unsigned(number));
    case ZYDIS_REGCLASS_MASK:
      return mask_bit(unsigned(ZydisRegisterGetId(reg)));
    case ZYDIS_REGCLASS_MMX:
    case ZYDIS_REGCLASS_X87:
      return x87_bit;
    // Flags have masks of their own, and rip is in no set.
    case ZYDIS_REGCLASS_FLAGS:
    case ZYDIS_REGCLASS_IP:
      return 0;
    default:
      return system_bit;
  }
}

// Whether writing this register leaves nothing of the old value: 32-bit writes clear the upper half, narrower
// ones keep the rest; a VEX or EVEX write clears up to the register's end, a legacy SSE write does not.
bool overwrites_all(const ZydisDecodedInstruction& z, const ZydisDecodedOperand& operand) {
  if ((operand.actions & ZYDIS_OPERAND_ACTION_WRITE) == 0) return false;
  switch (ZydisRegisterGetClass(operand.reg.value)) {
    case ZYDIS_REGCLASS_GPR64:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_MASK:
      return true;
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM:
      return z.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ||
             (z.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX && z.avx.mask.mode == ZYDIS_MASK_MODE_DISABLED);
    default:
      return false;
  }
}

void add_register(const ZydisDecodedInstruction& z, const ZydisDecodedOperand& operand, Effects& effects) {
  const RegisterSet set = set_of(operand.reg.value);
  if (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) {
    effects.read |= set;
    effects.sources |= set;
  }
  if (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) effects.written |= set;
  if (overwrites_all(z, operand)) {
    effects.overwritten |= set & ~system_bit;
  } else if (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) {
    effects.read |= set;  // what is kept of the old value counts as read
  }
}

void add_memory(const ZydisDecodedOperand& operand, Effects& effects) {
  effects.read |= set_of(operand.mem.base) | set_of(operand.mem.index);
  effects.sources |= set_of(operand.mem.base) | set_of(operand.mem.index);
  if (operand.mem.type == ZYDIS_MEMOP_TYPE_AGEN) return;  // lea: only computes the address
  if (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) effects.reads_memory = true;
  if (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) effects.writes_memory = true;
}

// A count of zero leaves the flags as they were: variable shifts, and repeated string instructions.
bool may_keep_flags(const Full& full) {
  const auto& z = full.instruction;
  if (z.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)) return true;
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_SHL:
    case ZYDIS_MNEMONIC_SHR:
    case ZYDIS_MNEMONIC_SAR:
    case ZYDIS_MNEMONIC_SHLD:
    case ZYDIS_MNEMONIC_SHRD:
    case ZYDIS_MNEMONIC_ROL:
    case ZYDIS_MNEMONIC_ROR:
    case ZYDIS_MNEMONIC_RCL:
    case ZYDIS_MNEMONIC_RCR:
      break;
    default:
      return false;
  }
  const auto& count = full.operands[z.operand_count_visible - 1];
  return count.type != ZYDIS_OPERAND_TYPE_IMMEDIATE || (count.imm.value.u & 0x1f) == 0;
}

// `xor %eax,%eax`: the result does not depend on the old value.
bool clears_register(const Full& full) {
  if (full.instruction.mnemonic != ZYDIS_MNEMONIC_XOR && full.instruction.mnemonic != ZYDIS_MNEMONIC_SUB)
    return false;
  const auto &a = full.operands[0], &b = full.operands[1];
  return a.type == ZYDIS_OPERAND_TYPE_REGISTER && b.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         a.reg.value == b.reg.value && a.size >= 32;
}

Operand convert(const ZydisDecodedOperand& z) {
  Operand operand{.bits = z.size};
  auto general = [](ZydisRegister reg) {
    const RegisterSet set = set_of(reg) & general_registers;
    return set ? Register(__builtin_ctzll(set)) : Register::none;
  };
  switch (z.type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
      operand.reg = general(z.reg.value);
      operand.kind = operand.reg == Register::none ? Operand::Kind::other : Operand::Kind::general_register;
      break;
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
      operand.kind = Operand::Kind::immediate;
      operand.value = z.imm.value.s;
      break;
    case ZYDIS_OPERAND_TYPE_MEMORY:
      operand.kind = Operand::Kind::memory;
      operand.reg = general(z.mem.base);
      operand.index = general(z.mem.index);
      operand.scale = operand.index == Register::none ? 0 : z.mem.scale;
      operand.value = z.mem.disp.has_displacement ? z.mem.disp.value : 0;
      operand.rip_base = z.mem.base == ZYDIS_REGISTER_RIP;
      operand.segment = z.mem.segment == ZYDIS_REGISTER_FS || z.mem.segment == ZYDIS_REGISTER_GS;
      break;
    default:
      operand.kind = Operand::Kind::other;
  }
  return operand;
}

Operation operation_of(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
      return Operation::mov;
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_CDQE:
      return Operation::sign_extend;
    case ZYDIS_MNEMONIC_MOVZX:
      return Operation::zero_extend;
    case ZYDIS_MNEMONIC_LEA:
      return Operation::lea;
    case ZYDIS_MNEMONIC_ADD:
      return Operation::add;
    case ZYDIS_MNEMONIC_SUB:
      return Operation::sub;
    case ZYDIS_MNEMONIC_AND:
      return Operation::and_;
    case ZYDIS_MNEMONIC_CMP:
      return Operation::cmp;
    case ZYDIS_MNEMONIC_PUSH:
      return Operation::push;
    case ZYDIS_MNEMONIC_POP:
      return Operation::pop;
    case ZYDIS_MNEMONIC_LEAVE:
      return Operation::leave;
    default:
      return Operation::other;
  }
}

// `xorps %xmm0,%xmm0` and its like: zeroes or ones, whatever was there.
bool is_constant_vector(const Full& full) {
  switch (full.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
    case ZYDIS_MNEMONIC_PCMPEQB:
    case ZYDIS_MNEMONIC_PCMPEQW:
    case ZYDIS_MNEMONIC_PCMPEQD:
    case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_VXORPD:
    case ZYDIS_MNEMONIC_VPCMPEQD:
      break;
    default:
      return false;
  }
  // The last two are the sources, in both the two- and the three-operand forms.
  unsigned count = full.instruction.operand_count_visible;
  if (count < 2) return false;
  const auto &a = full.operands[count - 2], &b = full.operands[count - 1];
  return a.type == ZYDIS_OPERAND_TYPE_REGISTER && b.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         a.reg.value == b.reg.value;
}

}  // namespace

std::optional<Effects> effects_of(Bytes instruction) {
  Full full;
  if (!decode_full(instruction, full)) return std::nullopt;
  const ZydisDecodedInstruction& z = full.instruction;
  Effects effects;
  for (unsigned i = 0; i < z.operand_count; ++i) {
    const ZydisDecodedOperand& operand = full.operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) add_register(z, operand, effects);
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) add_memory(operand, effects);
  }
  if (z.avx.mask.mode != ZYDIS_MASK_MODE_INVALID && z.avx.mask.mode != ZYDIS_MASK_MODE_DISABLED) {
    effects.read |= set_of(z.avx.mask.reg);
  }
  if (clears_register(full)) effects.read = 0;
  if (clears_register(full) || is_constant_vector(full)) effects.sources = 0;
  if (const ZydisAccessedFlags* flags = z.cpu_flags) {
    effects.flags_read = flags->tested;
    effects.flags_written = flags->modified | flags->set_0 | flags->set_1 | flags->undefined;
    if (!may_keep_flags(full)) effects.flags_overwritten = effects.flags_written;
  }
  return effects;
}

std::optional<Operands> operands_of(Bytes instruction) {
  Full full;
  if (!decode_full(instruction, full)) return std::nullopt;
  Operands operands{.operation = operation_of(full.instruction.mnemonic)};
  // cdqe hides its operands; it is `movslq %eax, %rax`.
  const unsigned shown =
      full.instruction.mnemonic == ZYDIS_MNEMONIC_CDQE ? 2 : full.instruction.operand_count_visible;
  if (shown > 0) operands.first = convert(full.operands[0]);
  if (shown > 1) operands.second = convert(full.operands[1]);
  return operands;
}

}  // namespace uscope::x86
