// Atomic operations. On memory that only this thread writes to they are plain ones.
#include "engine/inproc/code/translator.h"

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;

namespace {

x86::Gp sized(const x86::Gp& gp, uint32_t size) {
  if (size == 8) return gp.r64();
  return gp.r32();
}

}  // namespace

// On memory that only this thread writes to, one instruction is enough against its own signal handlers.
void Translator::atomic_on_own(const bpf_insn& i, const x86::Mem& place, uint32_t size) {
  const x86::Gp source = sized(reg(i.src_reg), size), old = sized(x86::r11, size);
  const bool keeps_old = i.imm & BPF_FETCH;
  if (keeps_old) out_.mov(old, place);
  switch (i.imm & ~BPF_FETCH) {
    case BPF_ADD:
      out_.add(place, source);
      break;
    case BPF_OR:
      out_.or_(place, source);
      break;
    case BPF_AND:
      out_.and_(place, source);
      break;
    case BPF_XOR:
      out_.xor_(place, source);
      break;
    default:  // BPF_XCHG
      out_.mov(place, source);
  }
  if (keeps_old) out_.mov(source, old);
}

// Fetching or, and, xor: until nobody was in between. rax may itself be the operand.
void Translator::fetch_in_turns(const bpf_insn& i, const x86::Mem& place, uint32_t size) {
  const x86::Gp source = sized(reg(i.src_reg), size);
  const int32_t operation = i.imm & ~BPF_FETCH;
  const x86::Gp operand = sized(x86::r9, size), next = sized(x86::r11, size), old = sized(x86::rax, size);
  asmjit::Label again = out_.newLabel();
  out_.mov(operand, source);
  out_.lea(x86::r10, place);
  out_.push(x86::rax);
  out_.mov(old, x86::ptr(x86::r10, 0, size));
  out_.bind(again);
  out_.mov(next, old);
  if (operation == BPF_OR) out_.or_(next, operand);
  if (operation == BPF_AND) out_.and_(next, operand);
  if (operation == BPF_XOR) out_.xor_(next, operand);
  out_.lock().cmpxchg(x86::ptr(x86::r10, 0, size), next);
  out_.jne(again);
  out_.mov(operand, old);
  out_.pop(x86::rax);
  out_.mov(source, operand);
}

Status Translator::atomic(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (BPF_SIZE(i.code) != BPF_W && BPF_SIZE(i.code) != BPF_DW)
    return refuse(at, "an atomic operation on less than four bytes");
  const uint32_t size = BPF_SIZE(i.code) == BPF_DW ? 8 : 4;
  const x86::Mem place = memory(i.dst_reg, i.off, size);
  const x86::Gp source = sized(reg(i.src_reg), size);
  const int32_t operation = i.imm & ~BPF_FETCH;
  const bool known =
      operation == BPF_ADD || operation == BPF_OR || operation == BPF_AND || operation == BPF_XOR;
  if (flow_.adds_number(at)) {
    out_.add(place, imm(flow_.before(at, i.src_reg).number));
    return {};
  }
  if ((known || i.imm == BPF_XCHG) && flow_.is_on_own_memory(at)) {
    atomic_on_own(i, place, size);
    return {};
  }
  if (i.imm == BPF_XCHG) {
    out_.xchg(place, source);
  } else if (i.imm == BPF_CMPXCHG) {
    out_.lock().cmpxchg(place, source);
    if (size == 4) out_.mov(x86::eax, x86::eax);
  } else if (i.imm == (BPF_ADD | BPF_FETCH)) {
    out_.lock().xadd(place, source);
  } else if (i.imm == BPF_ADD) {
    out_.lock().add(place, source);
  } else if (i.imm == BPF_OR) {
    out_.lock().or_(place, source);
  } else if (i.imm == BPF_AND) {
    out_.lock().and_(place, source);
  } else if (i.imm == BPF_XOR) {
    out_.lock().xor_(place, source);
  } else if (known) {
    fetch_in_turns(i, place, size);
  } else {
    return refuse(at, "not an atomic operation that this engine knows");
  }
  return {};
}

}  // namespace uscope::engine::inproc
