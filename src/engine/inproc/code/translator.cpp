#include "engine/inproc/code/translator.h"

#include <fmt/format.h>

#include <array>

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;

namespace {

constexpr uint8_t kMayGoto = BPF_JMP | 0xe0;
constexpr uint8_t kMemorySigned = 0x80;  // BPF_MEMSX
constexpr uint32_t kFunctionFrame = kBpfStack;

const std::array<x86::Gp, 11> kRegisters = {x86::rax, x86::rdi, x86::rsi, x86::rdx, x86::rcx, x86::r8,
                                            x86::rbx, x86::r13, x86::r14, x86::r15, x86::rbp};

uint32_t bytes_of(uint8_t code) {
  switch (BPF_SIZE(code)) {
    case BPF_B:
      return 1;
    case BPF_H:
      return 2;
    case BPF_W:
      return 4;
    default:
      return 8;
  }
}

x86::Gp sized(const x86::Gp& gp, uint32_t size) {
  if (size == 8) return gp.r64();
  if (size == 4) return gp.r32();
  if (size == 2) return gp.r16();
  return gp.r8();
}

}  // namespace

Translator::Translator(x86::Assembler& out, const codegen::Code& code, const CodeFacts& facts,
                       const SharedPlan& plan, const AreaPlaces& places)
    : out_(out), code_(code), facts_(facts), plan_(plan), places_(places) {}

x86::Gp Translator::reg(uint32_t number) { return kRegisters[number]; }
x86::Gp Translator::reg32(uint32_t number) { return kRegisters[number].r32(); }

uint32_t Translator::clobbered() const {
  uint32_t out = uint32_t(1) << x86::Gp::kIdR12;
  for (uint32_t i = 0; i < 10; i++)
    if (facts_.registers & (1u << i) && !(i == 6 && facts_.context_in_r6))
      out |= uint32_t(1) << kRegisters[i].id();
  if (facts_.functions.size() > 1) out |= uint32_t(1) << x86::Gp::kIdBp;
  out |= uint32_t(1) << x86::Gp::kIdR9 | uint32_t(1) << x86::Gp::kIdR10 | uint32_t(1) << x86::Gp::kIdR11;
  if (facts_.calls_runtime)
    for (uint32_t i = 0; i <= 5; i++) out |= uint32_t(1) << kRegisters[i].id();
  return out;
}

std::unexpected<Error> Translator::refuse(uint32_t at, const char* why) const {
  return fail(
      fmt::format("{}: instruction {} ({:#x}): {}", code_.name, at, code_.instructions[at].code, why));
}

// The first function's frame ends where the slot begins, the others' are where rbp says.
x86::Mem Translator::memory(uint32_t base, int32_t offset, uint32_t size) {
  if (base == 10 && function_ == 0) return x86::ptr(x86::r12, offset, size);
  if (base == 6 && facts_.context_in_r6)
    return x86::ptr(x86::r12, int32_t(offsetof(Slot, registers)) + offset, size);
  return x86::ptr(reg(base), offset, size);
}

Status Translator::run(asmjit::Label end) {
  end_ = end;
  for (size_t i = 0; i < code_.instructions.size(); i++) labels_.push_back(out_.newLabel());
  for (size_t i = 0; i < facts_.functions.size(); i++) {
    functions_.push_back(out_.newLabel());
    callbacks_.push_back(out_.newLabel());
  }
  for (uint32_t at = 0; at < code_.instructions.size(); at++) {
    if (facts_.is_function(at)) begin_function(facts_.function_of(at));
    out_.bind(labels_[at]);
    if (at == 0 && facts_.context_in_r6) continue;  // R6 = R1
    TRY_STATUS(instruction(at));
    if (code_.instructions[at].code == (BPF_LD | BPF_IMM | BPF_DW)) out_.bind(labels_[++at]);
  }
  const bool ends_itself = function_ == 0 && code_.instructions.back().code == (BPF_JMP | BPF_EXIT);
  if (!ends_itself) out_.ud2();  // nothing gets here: code does not fall off its end
  return {};
}

void Translator::begin_function(size_t function) {
  function_ = function;
  if (function == 0) return;
  if (facts_.is_callback[function]) {
    // Called by the runtime, which keeps what r12 is for its own use.
    out_.bind(callbacks_[function]);
    out_.push(x86::r12);
    out_.mov(x86::r12, x86::r9);
    out_.call(functions_[function]);
    out_.pop(x86::r12);
    out_.ret();
  }
  out_.bind(functions_[function]);
  for (const x86::Gp& each : {x86::rbp, x86::rbx, x86::r13, x86::r14, x86::r15}) out_.push(each);
  out_.mov(x86::rbp, x86::rsp);
  out_.sub(x86::rsp, kFunctionFrame);
}

void Translator::end_function(bool is_last) {
  if (function_ == 0) {
    if (!is_last || facts_.functions.size() > 1) out_.jmp(end_);
    return;
  }
  out_.add(x86::rsp, kFunctionFrame);
  for (const x86::Gp& each : {x86::r15, x86::r14, x86::r13, x86::rbx, x86::rbp}) out_.pop(each);
  out_.ret();
}

Status Translator::instruction(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  switch (BPF_CLASS(i.code)) {
    case BPF_ALU:
    case BPF_ALU64:
      return alu(at);
    case BPF_LDX:
      return load(at);
    case BPF_ST:
    case BPF_STX:
      return BPF_CLASS(i.code) == BPF_STX && BPF_MODE(i.code) == BPF_ATOMIC ? atomic(at) : store(at);
    case BPF_LD:
      if (i.code != (BPF_LD | BPF_IMM | BPF_DW) || at + 1 >= code_.instructions.size()) break;
      load_wide(at);
      return {};
    case BPF_JMP:
    case BPF_JMP32:
      if (i.code == (BPF_JMP | BPF_CALL)) return call(at);
      if (i.code == (BPF_JMP | BPF_EXIT)) {
        end_function(at + 1 == code_.instructions.size());
        return {};
      }
      return jump(at);
  }
  return refuse(at, "not an instruction that this engine knows");
}

void Translator::load_wide(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (i.src_reg == BPF_PSEUDO_FUNC) {
    const auto target = uint32_t(int32_t(at) + 1 + i.imm);
    out_.lea(reg(i.dst_reg), x86::ptr(callbacks_[facts_.function_of(target)]));
    return;
  }
  uint64_t value = uint32_t(i.imm) | uint64_t(uint32_t(code_.instructions[at + 1].imm)) << 32;
  for (const codegen::MapReference& reference : code_.maps) {
    if (reference.instruction != at) continue;
    const MapInfo& map = plan_.maps[reference.map];
    value = places_.shared + (reference.is_value ? map.elements + reference.value_offset : map.self);
    // Always in its long form: a code has the same size wherever it is put.
    out_.movabs(reg(i.dst_reg), imm(value));
    return;
  }
  out_.mov(reg(i.dst_reg), imm(value));
}

Status Translator::load(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  const uint32_t size = bytes_of(i.code);
  const x86::Mem from = memory(i.src_reg, i.off, size);
  if (BPF_MODE(i.code) == kMemorySigned && size < 8) {
    if (size == 4)
      out_.movsxd(reg(i.dst_reg), from);
    else
      out_.movsx(reg(i.dst_reg), from);
    return {};
  }
  if (BPF_MODE(i.code) != BPF_MEM) return refuse(at, "not a load that this engine knows");
  if (size == 8)
    out_.mov(reg(i.dst_reg), from);
  else if (size == 4)
    out_.mov(reg32(i.dst_reg), from);
  else
    out_.movzx(reg32(i.dst_reg), from);
  return {};
}

Status Translator::store(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (BPF_MODE(i.code) != BPF_MEM) return refuse(at, "not a store that this engine knows");
  const uint32_t size = bytes_of(i.code);
  const x86::Mem to = memory(i.dst_reg, i.off, size);
  if (BPF_CLASS(i.code) == BPF_ST) {
    const int64_t value = size == 1 ? int8_t(i.imm) : size == 2 ? int16_t(i.imm) : i.imm;
    out_.mov(to, imm(value));
    return {};
  }
  x86::Gp from = reg(i.src_reg);
  // The frame pointer and the context have no register of their own.
  if ((i.src_reg == 10 && function_ == 0) || (i.src_reg == 6 && facts_.context_in_r6)) {
    from = x86::r11;
    out_.lea(from, memory(i.src_reg, 0, 8));
  }
  out_.mov(to, sized(from, size));
  return {};
}

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

Status Translator::atomic(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  const uint32_t size = bytes_of(i.code);
  if (size < 4) return refuse(at, "an atomic operation on less than four bytes");
  const x86::Mem place = memory(i.dst_reg, i.off, size);
  const x86::Gp source = sized(reg(i.src_reg), size);
  const int32_t operation = i.imm & ~BPF_FETCH;
  const bool known =
      operation == BPF_ADD || operation == BPF_OR || operation == BPF_AND || operation == BPF_XOR;
  if ((known || i.imm == BPF_XCHG) && facts_.is_own_memory[at]) {
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
    // Fetching or, and, xor: until nobody was in between. rax may itself be the operand.
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
  } else {
    return refuse(at, "not an atomic operation that this engine knows");
  }
  return {};
}

void Translator::may_goto(uint32_t at) {
  out_.sub(x86::qword_ptr(x86::r12, offsetof(Slot, may_goto_left)), 1);
  out_.js(labels_[size_t(int64_t(at) + 1 + code_.instructions[at].off)]);
}

Status Translator::jump(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (i.code == kMayGoto) {
    may_goto(at);
    return {};
  }
  const bool is_far = i.code == (BPF_JMP32 | BPF_JA);
  const asmjit::Label target = labels_[size_t(int64_t(at) + 1 + (is_far ? i.imm : i.off))];
  if (is_far || i.code == (BPF_JMP | BPF_JA)) {
    out_.jmp(target);
    return {};
  }
  const bool wide = BPF_CLASS(i.code) == BPF_JMP;
  const uint8_t operation = BPF_OP(i.code);
  auto operand = [&](uint32_t number, const x86::Gp& temporary) {
    if (!(number == 10 && function_ == 0) && !(number == 6 && facts_.context_in_r6))
      return wide ? reg(number) : reg32(number);
    out_.lea(temporary, memory(number, 0, 8));
    return wide ? temporary : temporary.r32();
  };
  const x86::Gp left = operand(i.dst_reg, x86::r10);
  if (BPF_SRC(i.code) == BPF_X) {
    const x86::Gp right = operand(i.src_reg, x86::r11);
    operation == BPF_JSET ? out_.test(left, right) : out_.cmp(left, right);
  } else if (operation == BPF_JSET) {
    out_.test(left, imm(i.imm));
  } else if (i.imm == 0 && (operation == BPF_JEQ || operation == BPF_JNE)) {
    out_.test(left, left);
  } else {
    out_.cmp(left, imm(i.imm));
  }
  using Code = x86::CondCode;
  static constexpr std::pair<uint8_t, Code> kConditions[] = {
      {BPF_JEQ, Code::kE},         {BPF_JNE, Code::kNE},        {BPF_JSET, Code::kNE},
      {BPF_JGT, Code::kA},         {BPF_JGE, Code::kAE},        {BPF_JLT, Code::kB},
      {BPF_JLE, Code::kBE},        {BPF_JSGT, Code::kSignedGT}, {BPF_JSGE, Code::kSignedGE},
      {BPF_JSLT, Code::kSignedLT}, {BPF_JSLE, Code::kSignedLE},
  };
  for (auto [op, condition] : kConditions)
    if (op == operation) {
      out_.j(condition, target);
      return {};
    }
  return refuse(at, "not a jump that this engine knows");
}

}  // namespace uscope::engine::inproc
