// Arithmetic: as the kernel defines it. A division by zero gives 0, a remainder by zero the dividend;
// operations on 32 bits clear the upper half.
#include "engine/inproc/code/translator.h"

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;

namespace {

x86::Gp part(const x86::Gp& reg, bool is_wide) {
  if (is_wide) return reg.r64();
  return reg.r32();
}

}  // namespace

void Translator::move(const bpf_insn& i, bool is_wide) {
  const x86::Gp to = is_wide ? reg(i.dst_reg) : reg32(i.dst_reg);
  if (BPF_SRC(i.code) == BPF_K) {
    if (i.imm == 0)
      out_.xor_(to.r32(), to.r32());
    else
      out_.mov(part(to, is_wide && i.imm < 0), imm(i.imm));
    return;
  }
  if (is_place(i.src_reg)) {
    out_.lea(reg(i.dst_reg), memory(i.src_reg, 0, 8));
    if (!is_wide) out_.mov(to, to);
    return;
  }
  const x86::Gp from = reg(i.src_reg);
  switch (i.off) {
    case 8:
      out_.movsx(to, from.r8());
      break;
    case 16:
      out_.movsx(to, from.r16());
      break;
    case 32:
      out_.movsxd(reg(i.dst_reg), from.r32());
      break;
    default:
      // A move of 32 bits to itself clears the upper half.
      if (!is_wide || i.dst_reg != i.src_reg) out_.mov(to, is_wide ? from : from.r32());
  }
}

void Translator::shift(const bpf_insn& i, bool is_wide) {
  const x86::Gp to = is_wide ? reg(i.dst_reg) : reg32(i.dst_reg);
  const uint8_t operation = BPF_OP(i.code);
  if (BPF_SRC(i.code) == BPF_K) {
    const auto count = imm(i.imm & (is_wide ? 63 : 31));
    if (operation == BPF_LSH) out_.shl(to, count);
    if (operation == BPF_RSH) out_.shr(to, count);
    if (operation == BPF_ARSH) out_.sar(to, count);
    if (!is_wide && (i.imm & 31) == 0) out_.mov(to, to);
    return;
  }
  // The count must be in cl, which is R4.
  const x86::Gp value = part(x86::r11, is_wide);
  out_.mov(value, to);
  out_.mov(x86::r10, x86::rcx);
  if (i.src_reg != 4) out_.mov(x86::ecx, reg32(i.src_reg));
  if (operation == BPF_LSH) out_.shl(value, x86::cl);
  if (operation == BPF_RSH) out_.shr(value, x86::cl);
  if (operation == BPF_ARSH) out_.sar(value, x86::cl);
  if (!is_wide) out_.mov(value, value);  // a shift by 0 leaves the upper half
  out_.mov(x86::rcx, x86::r10);
  out_.mov(reg(i.dst_reg), x86::r11);
}

void Translator::divide(const bpf_insn& i, bool is_wide) {
  const bool is_signed = i.off == 1, is_remainder = BPF_OP(i.code) == BPF_MOD;
  const x86::Gp to = is_wide ? reg(i.dst_reg) : reg32(i.dst_reg);
  const x86::Gp divisor = part(x86::r11, is_wide);
  const x86::Gp a = part(x86::rax, is_wide), d = part(x86::rdx, is_wide);
  asmjit::Label by_zero = out_.newLabel(), by_minus_one = out_.newLabel(), done = out_.newLabel();
  if (BPF_SRC(i.code) == BPF_K)
    out_.mov(divisor, imm(i.imm));
  else
    out_.mov(divisor, is_wide ? reg(i.src_reg) : reg32(i.src_reg));
  out_.test(divisor, divisor);
  out_.je(by_zero);
  if (is_signed) {
    out_.cmp(divisor, imm(-1));  // the smallest number has no negative: the processor would fault
    out_.je(by_minus_one);
  }
  out_.mov(x86::r10, x86::rax);
  out_.mov(x86::r9, x86::rdx);
  out_.mov(a, to);
  if (is_signed) {
    is_wide ? out_.cqo() : out_.cdq();
    out_.idiv(divisor);
  } else {
    out_.xor_(x86::edx, x86::edx);
    out_.div(divisor);
  }
  out_.mov(divisor, is_remainder ? d : a);
  out_.mov(x86::rax, x86::r10);
  out_.mov(x86::rdx, x86::r9);
  out_.mov(to, divisor);
  out_.jmp(done);
  out_.bind(by_minus_one);
  if (is_signed) {
    is_remainder ? out_.xor_(to.r32(), to.r32()) : out_.neg(to);
    out_.jmp(done);
  }
  out_.bind(by_zero);
  if (!is_remainder)
    out_.xor_(to.r32(), to.r32());
  else if (!is_wide)
    out_.mov(to, to);
  out_.bind(done);
}

Status Translator::swap_bytes(const bpf_insn& i) {
  const x86::Gp to = reg(i.dst_reg);
  const bool swaps = BPF_CLASS(i.code) == BPF_ALU64 || BPF_SRC(i.code) == BPF_TO_BE;
  switch (i.imm) {
    case 16:
      if (swaps) out_.rol(to.r16(), 8);
      out_.movzx(to.r32(), to.r16());
      return {};
    case 32:
      swaps ? out_.bswap(to.r32()) : out_.mov(to.r32(), to.r32());
      return {};
    case 64:
      if (swaps) out_.bswap(to);
      return {};
    default:
      return fail(code_.name + ": swaps an unusual number of bytes");
  }
}

void Translator::find_bit_searches() {
  is_in_search_.resize(code_.instructions.size());
  const auto& features = asmjit::CpuInfo::host().features().x86();
  if (!features.hasLZCNT() || !features.hasBMI2()) return;
  for (uint32_t at = 0; at < code_.instructions.size(); at++) {
    const auto search = flow_.bit_search_at(at);
    if (!search) continue;
    searches_.emplace(at, search->low);
    for (uint32_t i = 1; i < search->length; i++) is_in_search_[at + i] = true;
    at += search->length - 1;
  }
}

// What some forty instructions search for, the processor has one for. The same results in R0, R1 and R2.
void Translator::search_bit(uint32_t low) {
  const x86::Gp value = reg(0), last = reg(1), shift = reg(2);
  // A value below 2^low is not shifted.
  out_.mov(shift, value);
  out_.or_(shift, imm(uint64_t(1) << low));
  out_.lzcnt(shift, shift);
  out_.xor_(shift.r32(), imm(63));
  if (low > 0) out_.sub(shift.r32(), imm(low));
  out_.shrx(value, value, shift);
  out_.mov(last.r32(), shift.r32());
  out_.and_(last.r32(), imm(1));
}

Status Translator::alu(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  const bool is_wide = BPF_CLASS(i.code) == BPF_ALU64;
  const x86::Gp to = is_wide ? reg(i.dst_reg) : reg32(i.dst_reg);
  asmjit::Operand operand = imm(i.imm);
  if (BPF_SRC(i.code) == BPF_X && BPF_OP(i.code) != BPF_END && BPF_OP(i.code) != BPF_MOV) {
    operand = is_wide ? reg(i.src_reg) : reg32(i.src_reg);
    if (is_place(i.src_reg)) {
      out_.lea(x86::r11, memory(i.src_reg, 0, 8));
      operand = part(x86::r11, is_wide);
    }
  }
  auto emit = [&](uint32_t id) { out_.emit(id, to, operand); };
  switch (BPF_OP(i.code)) {
    case BPF_ADD:
      emit(x86::Inst::kIdAdd);
      return {};
    case BPF_SUB:
      emit(x86::Inst::kIdSub);
      return {};
    case BPF_AND:
      emit(x86::Inst::kIdAnd);
      return {};
    case BPF_OR:
      emit(x86::Inst::kIdOr);
      return {};
    case BPF_XOR:
      emit(x86::Inst::kIdXor);
      return {};
    case BPF_MUL:
      if (operand.isImm())
        out_.imul(to, to, imm(i.imm));
      else
        emit(x86::Inst::kIdImul);
      return {};
    case BPF_NEG:
      out_.neg(to);
      return {};
    case BPF_MOV:
      move(i, is_wide);
      return {};
    case BPF_LSH:
    case BPF_RSH:
    case BPF_ARSH:
      shift(i, is_wide);
      return {};
    case BPF_DIV:
    case BPF_MOD:
      divide(i, is_wide);
      return {};
    case BPF_END:
      return swap_bytes(i);
    default:
      return refuse(at, "not an operation that this engine knows");
  }
}

}  // namespace uscope::engine::inproc
