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
                       const ValueFlow& flow, const SharedPlan& plan, const AreaPlaces& places)
    : out_(out), code_(code), facts_(facts), flow_(flow), plan_(plan), places_(places) {}

void Translator::prepare() {
  for (auto& labels : labels_)
    for (size_t i = 0; i < code_.instructions.size(); i++) labels.push_back(out_.newLabel());
  for (size_t i = 0; i < facts_.functions.size(); i++) {
    functions_.push_back(out_.newLabel());
    callbacks_.push_back(out_.newLabel());
  }
  find_bit_searches();
  find_quick();
}

x86::Gp Translator::reg(uint32_t number) { return kRegisters[number]; }
x86::Gp Translator::reg32(uint32_t number) { return kRegisters[number].r32(); }

bool Translator::is_place(uint32_t number) const {
  return (number == 10 && function_ == 0) || (number == 6 && facts_.context_in_r6);
}

bool Translator::is_emitted(uint32_t at, Version version) const {
  if (at == 0 && facts_.context_in_r6) return false;  // R6 = R1
  if (flow_.is_needless(at) || is_in_search_[at]) return false;
  return version == Version::Full || quick_[at];
}

bool Translator::needs_full(uint32_t at) const {
  const bpf_insn& i = code_.instructions[at];
  if (i.code == (BPF_JMP | BPF_CALL)) return !can_inline(at);
  const bool is_atomic = BPF_CLASS(i.code) == BPF_STX && BPF_MODE(i.code) == BPF_ATOMIC;
  return is_atomic && !flow_.is_on_own_memory(at) && (i.imm & BPF_FETCH);
}

// What can run until the full version must take over, as long as lookups find something.
void Translator::find_quick() {
  quick_.resize(code_.instructions.size());
  if (facts_.functions.size() > 1) return;
  std::vector<uint32_t> todo = {0};
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    if (quick_[at]) continue;
    quick_[at] = true;
    if (needs_full(at)) continue;
    if (code_.instructions[at].code == (BPF_JMP | BPF_EXIT)) has_quick_ = true;
    for (uint32_t to : flow_.usual_successors(at)) todo.push_back(to);
  }
}

uint32_t Translator::clobbers(uint32_t at) const {
  auto bits = [](std::initializer_list<x86::Gp> registers) {
    uint32_t out = 0;
    for (const x86::Gp& each : registers) out |= uint32_t(1) << each.id();
    return out;
  };
  if (searches_.contains(at)) return bits({x86::rax, x86::rdi, x86::rsi});
  const bpf_insn& i = code_.instructions[at];
  const uint32_t destination = i.dst_reg < 10 && !is_place(i.dst_reg) ? bits({reg(i.dst_reg)}) : 0;
  switch (BPF_CLASS(i.code)) {
    case BPF_ALU:
    case BPF_ALU64:
      if (BPF_OP(i.code) == BPF_DIV || BPF_OP(i.code) == BPF_MOD)
        return destination | bits({x86::r9, x86::r10, x86::r11});
      if (BPF_SRC(i.code) == BPF_X && BPF_OP(i.code) != BPF_MOV)
        return destination | bits({x86::r10, x86::r11});
      return destination;
    case BPF_LD:
    case BPF_LDX:
      return destination;
    case BPF_ST:
      return 0;
    case BPF_STX:
      if (BPF_MODE(i.code) != BPF_ATOMIC) return is_place(i.src_reg) ? bits({x86::r11}) : 0;
      if (!(i.imm & BPF_FETCH)) return 0;
      return bits({x86::rax, reg(i.src_reg), x86::r9, x86::r10, x86::r11});
    default:
      if (i.code != (BPF_JMP | BPF_CALL))
        return is_place(i.dst_reg) || is_place(i.src_reg) ? bits({x86::r10, x86::r11}) : 0;
      if (can_inline(at) && is_pairing(i)) return bits({x86::rax, x86::rcx, x86::rdx, x86::rsi, x86::rdi});
      if (can_inline(at))
        return bits({x86::rax, x86::rcx, x86::rdx}) | (flow_.is_known_lookup(at) ? 0 : bits({x86::rsi}));
      return bits({x86::rax, x86::rdi, x86::rsi, x86::rdx, x86::rcx, x86::r8, x86::r9, x86::r10, x86::r11});
  }
}

uint32_t Translator::clobbered(Version version) const {
  uint32_t out = uint32_t(1) << x86::Gp::kIdR12;
  for (uint32_t at = 0; at < code_.instructions.size(); at++) {
    if (!is_emitted(at, version)) continue;
    const bool leaves = version == Version::Quick && needs_full(at);
    if (!leaves) out |= clobbers(at);
  }
  if (version == Version::Quick) return out;
  // Misses of what is served in place end in calls.
  if (facts_.calls_runtime)
    for (const x86::Gp& each : {x86::rdi, x86::rsi, x86::rdx, x86::rcx, x86::r8, x86::r9, x86::r10, x86::r11})
      out |= uint32_t(1) << each.id();
  if (!facts_.context_in_r6) out |= uint32_t(1) << x86::Gp::kIdDi;
  if (facts_.functions.size() > 1)
    for (const x86::Gp& each : {x86::rbp, x86::rbx, x86::r13, x86::r14, x86::r15})
      out |= uint32_t(1) << each.id();
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

Status Translator::run(Version version, Label end) {
  version_ = version;
  end_ = end;
  function_ = 0;
  for (uint32_t at = 0; at < code_.instructions.size(); at++) {
    if (version == Version::Full && facts_.is_function(at)) begin_function(facts_.function_of(at));
    out_.bind(label(at));
    const bool is_wide = code_.instructions[at].code == (BPF_LD | BPF_IMM | BPF_DW);
    if (is_emitted(at, version)) {
      if (version == Version::Quick && needs_full(at)) {
        upgrades_.push_back({at, out_.newLabel(), {}});
        out_.jmp(upgrades_.back().here);
      } else {
        TRY_STATUS(instruction(at));
      }
    }
    if (is_wide) out_.bind(label(++at));
  }
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

void Translator::end_function(uint32_t at) {
  if (function_ == 0) {
    for (uint32_t i = at + 1; i < code_.instructions.size(); i++)
      if (is_emitted(i, version_)) {
        out_.jmp(end_);
        break;
      }
    return;
  }
  out_.add(x86::rsp, kFunctionFrame);
  for (const x86::Gp& each : {x86::r15, x86::r14, x86::r13, x86::rbx, x86::rbp}) out_.pop(each);
  out_.ret();
}

Status Translator::instruction(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (auto search = searches_.find(at); search != searches_.end()) {
    search_bit(search->second);
    return {};
  }
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
        end_function(at);
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
    value = reference.is_value ? places_.shared + map.elements + reference.value_offset
                               : places_.maps + reference.map * sizeof(MapInfo);
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
  if (is_place(i.src_reg)) {
    from = x86::r11;
    out_.lea(from, memory(i.src_reg, 0, 8));
  }
  out_.mov(to, sized(from, size));
  return {};
}

void Translator::may_goto(uint32_t at) {
  out_.sub(x86::qword_ptr(x86::r12, offsetof(Slot, rounds_left)), 1);
  out_.js(label(uint32_t(int64_t(at) + 1 + code_.instructions[at].off)));
}

// Not at all where nothing lies between.
void Translator::jump_always(uint32_t at, uint32_t target) {
  bool is_next = target > at;
  for (uint32_t i = at + 1; is_next && i < target; i++) is_next = !is_emitted(i, version_);
  if (!is_next) out_.jmp(label(target));
}

Status Translator::jump(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (i.code == kMayGoto) {
    may_goto(at);
    return {};
  }
  const bool is_far = i.code == (BPF_JMP32 | BPF_JA);
  const auto to = uint32_t(int64_t(at) + 1 + (is_far ? i.imm : i.off));
  const Label target = label(to);
  if (is_far || i.code == (BPF_JMP | BPF_JA)) {
    jump_always(at, to);
    return {};
  }
  // In the quick version a lookup that found nothing has left it.
  if (const int test = flow_.tests_lookup(at);
      test != 0 && version_ == Version::Quick && can_inline(at - 1)) {
    if (test > 0) jump_always(at, to);
    return {};
  }
  const bool wide = BPF_CLASS(i.code) == BPF_JMP;
  const uint8_t operation = BPF_OP(i.code);
  auto operand = [&](uint32_t number, const x86::Gp& temporary) {
    if (!is_place(number)) return wide ? reg(number) : reg32(number);
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
