#include "codegen/assembler.h"

#include <fmt/format.h>

#include <utility>

namespace uscope::codegen {
namespace {

constexpr uint8_t kLoad64 = BPF_LD | BPF_IMM | BPF_DW;

bool is_load64(const bpf_insn& instruction) { return instruction.code == kLoad64; }
bool ends(const bpf_insn& instruction) {
  return instruction.code == (BPF_JMP | BPF_EXIT) || instruction.code == (BPF_JMP | BPF_JA);
}

}  // namespace

Cond inverse(Cond cond) {
  switch (cond) {
    case Cond::Eq:
      return Cond::Ne;
    case Cond::Ne:
      return Cond::Eq;
    case Cond::Gt:
      return Cond::Le;
    case Cond::Ge:
      return Cond::Lt;
    case Cond::Lt:
      return Cond::Ge;
    case Cond::Le:
      return Cond::Gt;
    case Cond::SGt:
      return Cond::SLe;
    case Cond::SGe:
      return Cond::SLt;
    case Cond::SLt:
      return Cond::SGe;
    case Cond::SLe:
      return Cond::SGt;
  }
  return Cond::Eq;
}

Width width_of(uint64_t bytes) {
  return bytes == 1 ? Width::B1 : bytes == 2 ? Width::B2 : bytes == 4 ? Width::B4 : Width::B8;
}

bpf_insn Assembler::make(uint8_t code, Reg dst, Reg src, int32_t offset, int32_t imm) {
  bpf_insn made{};
  made.code = code;
  made.dst_reg = uint8_t(dst) & 0xf;
  made.src_reg = uint8_t(src) & 0xf;
  made.off = int16_t(offset);
  made.imm = imm;
  return made;
}

void Assembler::emit(uint8_t code, Reg dst, Reg src, int32_t offset, int32_t imm) {
  if (offset < INT16_MIN || offset > INT16_MAX) bad_offset_ = true;
  if (dst == Reg::R10) dst = frame_;
  if (src == Reg::R10) src = frame_;
  lines_.push_back({make(code, dst, src, offset, imm)});
}

Assembler::Label Assembler::label() {
  labels_.push_back(kNowhere);
  return {uint32_t(labels_.size() - 1)};
}

void Assembler::bind(Label label) { labels_[label.id] = uint32_t(lines_.size()); }

void Assembler::mov(Reg dst, int64_t value) {
  if (value == int32_t(value)) return emit(BPF_ALU64 | BPF_MOV | BPF_K, dst, Reg::R0, 0, int32_t(value));
  emit(kLoad64, dst, Reg::R0, 0, int32_t(uint64_t(value) & 0xffffffff));
  emit(0, Reg::R0, Reg::R0, 0, int32_t(uint64_t(value) >> 32));
}

void Assembler::load(Width width, Reg dst, Reg base, int32_t offset) {
  emit(BPF_LDX | BPF_MEM | uint8_t(width), dst, base, offset, 0);
}

void Assembler::store(Width width, Reg base, int32_t offset, Reg src) {
  emit(BPF_STX | BPF_MEM | uint8_t(width), base, src, offset, 0);
}

void Assembler::store(Width width, Reg base, int32_t offset, int32_t value) {
  emit(BPF_ST | BPF_MEM | uint8_t(width), base, Reg::R0, offset, value);
}

void Assembler::atomic(int32_t op, Width width, Reg base, int32_t offset, Reg src) {
  emit(BPF_STX | BPF_ATOMIC | uint8_t(width), base, src, offset, op);
}

void Assembler::load_map(Reg dst, uint32_t map) {
  emit(kLoad64, dst, Reg::R0, 0, 0);
  lines_.back().map = map;
  emit(0, Reg::R0, Reg::R0, 0, 0);
}

void Assembler::load_function(Reg dst, uint32_t function) {
  emit(kLoad64, dst, Reg(BPF_PSEUDO_FUNC), 0, 0);
  lines_.back().function = function;
  emit(0, Reg::R0, Reg::R0, 0, 0);
}

void Assembler::jump(Label target) {
  emit(BPF_JMP | BPF_JA, Reg::R0, Reg::R0, 0, 0);
  lines_.back().target = target.id;
}

void Assembler::jump_if(Cond cond, Reg left, Reg right, Label target) {
  emit(BPF_JMP | uint8_t(cond) | BPF_X, left, right, 0, 0);
  lines_.back().target = target.id;
  ++branches_;
}

void Assembler::jump_if(Cond cond, Reg left, int32_t right, Label target) {
  emit(BPF_JMP | uint8_t(cond) | BPF_K, left, Reg::R0, 0, right);
  lines_.back().target = target.id;
  ++branches_;
}

void Assembler::may_goto(Label target) {
  constexpr uint8_t kConditional = 0xe0;  // BPF_JCOND
  emit(BPF_JMP | kConditional, Reg::R0, Reg::R0, 0, 0);
  lines_.back().target = target.id;
}

void Assembler::append(const Assembler& other) {
  auto first_line = uint32_t(lines_.size()), first_label = uint32_t(labels_.size());
  for (Line line : other.lines_) {
    if (line.target != kNowhere) line.target += first_label;
    lines_.push_back(line);
  }
  for (uint32_t line : other.labels_) labels_.push_back(line == kNowhere ? kNowhere : line + first_line);
  branches_ += other.branches_;
  bad_offset_ = bad_offset_ || other.bad_offset_;
}

std::vector<bool> Assembler::reachable(const std::vector<uint32_t>& function_lines) const {
  std::vector<bool> seen(lines_.size());
  std::vector<uint32_t> todo{0};
  while (!todo.empty()) {
    uint32_t at = todo.back();
    todo.pop_back();
    while (at < lines_.size() && !seen[at]) {
      seen[at] = true;
      const Line& line = lines_[at];
      if (line.function != kNowhere) todo.push_back(function_lines[line.function]);
      if (is_load64(line.instruction)) seen[++at] = true;
      if (line.target != kNowhere) todo.push_back(labels_[line.target]);
      if (ends(line.instruction)) break;
      at++;
    }
  }
  return seen;
}

Result<Code> Assembler::finish(const Assembler& prologue, const std::vector<Assembler>& functions) const {
  Assembler whole = prologue;
  whole.append(*this);
  std::vector<uint32_t> function_lines;
  for (const Assembler& function : functions) {
    function_lines.push_back(uint32_t(whole.lines_.size()));
    whole.append(function);
  }
  if (whole.bad_offset_) return fail("the probe needs more memory than its code can reach");
  for (const Line& line : whole.lines_)
    if (line.target != kNowhere && whole.labels_[line.target] == kNowhere)
      return fail("a jump of the generated code leads nowhere");
  std::vector<bool> kept = whole.reachable(function_lines);
  std::vector<uint32_t> moved(whole.lines_.size() + 1);  // where each line ends up
  uint32_t count = 0;
  for (size_t i = 0; i < whole.lines_.size(); i++) {
    moved[i] = count;
    count += kept[i];
  }
  moved.back() = count;
  Code code;
  for (uint32_t line : function_lines)
    if (line < kept.size() && kept[line]) code.functions.push_back(moved[line]);
  for (size_t i = 0; i < whole.lines_.size(); i++) {
    if (!kept[i]) continue;
    const Line& line = whole.lines_[i];
    bpf_insn instruction = line.instruction;
    if (line.map != kNowhere) code.maps.push_back({moved[i], line.map});
    if (line.function != kNowhere)
      instruction.imm = int32_t(moved[function_lines[line.function]]) - int32_t(moved[i]) - 1;
    if (line.target != kNowhere) {
      int64_t distance = int64_t(moved[whole.labels_[line.target]]) - int64_t(moved[i]) - 1;
      if (distance < INT16_MIN || distance > INT16_MAX)
        return fail(fmt::format("the probe's code is too long: a jump over {} instructions", distance));
      instruction.off = int16_t(distance);
    }
    code.instructions.push_back(instruction);
  }
  return code;
}

}  // namespace uscope::codegen
