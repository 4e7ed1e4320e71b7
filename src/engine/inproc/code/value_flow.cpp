#include "engine/inproc/code/value_flow.h"

#include <deque>

namespace uscope::engine::inproc {
namespace {

using codegen::MapKind;

constexpr uint8_t kMayGoto = BPF_JMP | 0xe0;

bool is_wide(const bpf_insn& i) { return i.code == (BPF_LD | BPF_IMM | BPF_DW); }
bool is_call(const bpf_insn& i) { return i.code == (BPF_JMP | BPF_CALL); }
bool is_exit(const bpf_insn& i) { return i.code == (BPF_JMP | BPF_EXIT); }
bool is_jump(const bpf_insn& i) {
  const uint8_t kind = BPF_CLASS(i.code);
  return (kind == BPF_JMP || kind == BPF_JMP32) && !is_call(i) && !is_exit(i);
}
bool is_always(const bpf_insn& i) { return is_jump(i) && BPF_OP(i.code) == BPF_JA && i.code != kMayGoto; }
bool is_alu(const bpf_insn& i) { return BPF_CLASS(i.code) == BPF_ALU || BPF_CLASS(i.code) == BPF_ALU64; }
bool is_atomic(const bpf_insn& i) { return BPF_CLASS(i.code) == BPF_STX && BPF_MODE(i.code) == BPF_ATOMIC; }
bool is_register_move(const bpf_insn& i) { return i.code == (BPF_ALU64 | BPF_MOV | BPF_X) && i.off == 0; }
int64_t target(uint32_t at, const bpf_insn& i) {
  return int64_t(at) + 1 + (i.code == (BPF_JMP32 | BPF_JA) ? i.imm : i.off);
}
constexpr uint32_t bit(uint32_t reg) { return uint32_t(1) << reg; }
constexpr uint32_t kCallArguments = 0x3e, kCallWrites = 0x3f;

}  // namespace

ValueFlow::ValueFlow(const codegen::Code& code, const codegen::Program& program, const CodeFacts& facts)
    : all_(code.instructions),
      program_(program),
      facts_(facts),
      states_(all_.size()),
      needless_(all_.size()),
      reached_(all_.size()),
      jumped_to_(all_.size()) {
  for (uint32_t at = 0; at < all_.size(); at++) {
    if (is_jump(all_[at])) jumped_to_[size_t(target(at, all_[at]))] = true;
    if (is_wide(all_[at])) at++;
  }
  follow();
  find_needless();
}

bool ValueFlow::is_per_cpu(uint32_t map) const {
  const MapKind kind = program_.maps[map].kind;
  return kind == MapKind::PerCpuArray || kind == MapKind::PerCpuHash || kind == MapKind::PerCpuLruHash;
}

std::vector<uint32_t> ValueFlow::successors(uint32_t at) const {
  const bpf_insn& i = all_[at];
  std::vector<uint32_t> out;
  if (is_exit(i)) return out;
  if (is_jump(i)) out.push_back(uint32_t(target(at, i)));
  const uint32_t next = at + (is_wide(i) ? 2 : 1);
  if (!is_always(i) && next < all_.size()) out.push_back(next);
  return out;
}

void ValueFlow::follow() {
  std::deque<uint32_t> todo;
  for (uint32_t start : facts_.functions) {
    states_[start].fill({Known::Anything});
    states_[start][10] = {Known::Frame, 0, 0};
    reached_[start] = true;
    todo.push_back(start);
  }
  while (!todo.empty()) {
    const uint32_t at = todo.front();
    todo.pop_front();
    KnownRegisters state = states_[at];
    step(at, state);
    for (uint32_t to : successors(at)) {
      bool changed = !reached_[to];
      reached_[to] = true;
      for (size_t r = 0; r < state.size(); r++) {
        Known& there = states_[to][r];
        if (there == state[r] || there.kind == Known::Anything) continue;
        there = there.kind == Known::Unset ? state[r] : Known{Known::Anything};
        changed = true;
      }
      if (changed) todo.push_back(to);
    }
  }
}

void ValueFlow::step(uint32_t at, KnownRegisters& state) const {
  const bpf_insn& i = all_[at];
  const Known anything{Known::Anything};
  if (is_call(i)) {
    const Known map = state[1];
    for (size_t r = 0; r <= 5; r++) state[r] = anything;
    if (i.src_reg == 0 && i.imm == BPF_FUNC_map_lookup_elem && map.kind == Known::Map && is_per_cpu(map.map))
      state[0] = {Known::OwnValue, map.map, 0};
    return;
  }
  if (is_atomic(i)) {
    if (i.imm & BPF_FETCH) state[i.imm == BPF_CMPXCHG ? 0 : i.src_reg] = anything;
    return;
  }
  if (!is_alu(i) && BPF_CLASS(i.code) != BPF_LDX && !is_wide(i)) return;
  Known& to = state[i.dst_reg];
  if (is_wide(i)) {
    const int32_t map = facts_.map_of_load[at];
    to = map >= 0 && !facts_.is_value_load[at] ? Known{Known::Map, uint32_t(map), 0} : anything;
  } else if (is_register_move(i)) {
    to = state[i.src_reg];
  } else if (i.code == (BPF_ALU64 | BPF_MOV | BPF_K)) {
    to = {Known::Number, 0, i.imm};
  } else if (i.code == (BPF_ALU64 | BPF_ADD | BPF_K) && to.kind == Known::Frame) {
    to.number += i.imm;
  } else if (BPF_CLASS(i.code) == BPF_ALU64 && BPF_OP(i.code) == BPF_ADD && to.kind == Known::OwnValue) {
    // Still in the value: the generator checks its bounds.
  } else {
    to = anything;
  }
}

bool ValueFlow::is_known_lookup(uint32_t at) const {
  const bpf_insn& i = all_[at];
  return is_call(i) && i.src_reg == 0 && i.imm == BPF_FUNC_map_lookup_elem && reached_[at] &&
         states_[at][1].kind == Known::Map && states_[at][2].kind == Known::Frame &&
         facts_.functions.size() == 1;
}

bool ValueFlow::is_on_own_memory(uint32_t at) const {
  return is_atomic(all_[at]) && states_[at][all_[at].dst_reg].kind == Known::OwnValue;
}

bool ValueFlow::adds_number(uint32_t at) const {
  return is_on_own_memory(at) && all_[at].imm == BPF_ADD &&
         states_[at][all_[at].src_reg].kind == Known::Number;
}

int ValueFlow::tests_lookup(uint32_t at) const {
  if (at == 0 || !is_known_lookup(at - 1)) return 0;
  const bpf_insn& i = all_[at];
  if (i.dst_reg != 0 || i.imm != 0) return 0;
  if (i.code == (BPF_JMP | BPF_JNE | BPF_K)) return 1;
  return i.code == (BPF_JMP | BPF_JEQ | BPF_K) ? -1 : 0;
}

uint32_t ValueFlow::reads(uint32_t at) const {
  const bpf_insn& i = all_[at];
  if (is_exit(i)) return bit(0) | 0x3c0;
  if (is_call(i)) {
    if (is_known_lookup(at)) return 0;
    return kCallArguments;
  }
  if (is_wide(i)) return 0;
  uint32_t out = 0;
  if (is_atomic(i)) {
    out = bit(i.dst_reg) | (adds_number(at) ? 0 : bit(i.src_reg));
    return i.imm == BPF_CMPXCHG ? out | bit(0) : out;
  }
  switch (BPF_CLASS(i.code)) {
    case BPF_LDX:
      return bit(i.src_reg);
    case BPF_ST:
      return bit(i.dst_reg);
    case BPF_STX:
      return bit(i.dst_reg) | bit(i.src_reg);
    default:
      if (BPF_SRC(i.code) == BPF_X && !(is_alu(i) && BPF_OP(i.code) == BPF_END)) out = bit(i.src_reg);
      if (!is_alu(i) || BPF_OP(i.code) != BPF_MOV) out |= bit(i.dst_reg);
      return out;
  }
}

uint32_t ValueFlow::writes(uint32_t at) const {
  const bpf_insn& i = all_[at];
  if (is_call(i)) return kCallWrites;
  if (is_alu(i) || BPF_CLASS(i.code) == BPF_LDX || is_wide(i)) return bit(i.dst_reg);
  return 0;
}

// Backwards: which registers are read later.
void ValueFlow::find_needless() {
  std::vector<uint32_t> live(all_.size() + 1);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t at = uint32_t(all_.size()); at-- > 0;) {
      if (!reached_[at]) continue;
      uint32_t out = 0;
      for (uint32_t to : successors(at)) out |= live[to];
      // What only makes a value that nobody reads, reads nothing itself.
      const bool is_pure = is_alu(all_[at]) || is_wide(all_[at]) || BPF_CLASS(all_[at].code) == BPF_LDX;
      needless_[at] = is_pure && (out & writes(at)) == 0;
      const uint32_t in = needless_[at] ? out : (out & ~writes(at)) | reads(at);
      if (in == live[at]) continue;
      live[at] = in;
      changed = true;
    }
  }
}

std::optional<uint32_t> ValueFlow::call_before(uint32_t at) const {
  while (at > 0 && !jumped_to_[at]) {
    const bpf_insn& i = all_[--at];
    if (is_call(i)) return i.src_reg == 0 ? std::optional(at) : std::nullopt;
    const uint8_t kind = BPF_CLASS(i.code);
    if (is_jump(i) || is_exit(i) || kind == BPF_ST || kind == BPF_STX || facts_.is_function(at)) break;
  }
  return std::nullopt;
}

bool ValueFlow::looks_up_text(uint32_t at) const {
  if (!is_call(all_[at]) || all_[at].src_reg != 0 || all_[at].imm != BPF_FUNC_map_lookup_elem) return false;
  const auto reading = call_before(at);
  if (!reading || all_[*reading].imm != BPF_FUNC_probe_read_user_str) return false;
  const auto clearing = call_before(*reading);
  if (!clearing || all_[*clearing].imm != BPF_FUNC_probe_read_kernel) return false;
  return states_[*clearing][3] == Known{Known::Number, 0, 0};
}

std::optional<ValueFlow::BitSearch> ValueFlow::bit_search_at(uint32_t at) const {
  constexpr uint32_t kSteps = 6, kInStep = 7, kLength = 1 + kSteps * kInStep;
  auto is = [&](uint32_t index, uint8_t code, uint8_t to, uint8_t from, int32_t number) {
    const bpf_insn& i = all_[index];
    return i.code == code && i.dst_reg == to && i.off == 0 &&
           (BPF_SRC(code) == BPF_X ? i.src_reg == from : i.imm == number);
  };
  constexpr uint8_t kMoveNumber = BPF_ALU64 | BPF_MOV | BPF_K, kMove = BPF_ALU64 | BPF_MOV | BPF_X;
  constexpr uint8_t kRight = BPF_ALU64 | BPF_RSH | BPF_K, kRightBy = BPF_ALU64 | BPF_RSH | BPF_X;
  if (at + kLength > all_.size() || !is(at, kMoveNumber, 2, 0, 0)) return std::nullopt;
  const int32_t low = all_[at + 2].imm - 32;
  if (low < 0 || low > 8) return std::nullopt;
  for (uint32_t s = 0; s < kSteps; s++) {
    const uint32_t from = at + 1 + s * kInStep;
    const int32_t step = 32 >> s;
    if (!is(from, kMove, 1, 0, 0) || !is(from + 1, kRight, 1, 0, low + step) ||
        !is(from + 2, BPF_ALU64 | BPF_NEG, 1, 0, 0) || !is(from + 3, kRight, 1, 0, 63) ||
        !is(from + 4, BPF_ALU64 | BPF_MUL | BPF_K, 1, 0, step) || !is(from + 5, kRightBy, 0, 1, 0) ||
        !is(from + 6, BPF_ALU64 | BPF_ADD | BPF_X, 2, 1, 0))
      return std::nullopt;
  }
  for (uint32_t i = at; i < at + kLength; i++)
    if (needless_[i] || (i > at && jumped_to_[i])) return std::nullopt;
  return BitSearch{kLength, uint32_t(low)};
}

std::vector<uint32_t> ValueFlow::usual_successors(uint32_t at) const {
  std::vector<uint32_t> out = successors(at);
  const int test = tests_lookup(at);
  if (test == 0 || out.size() != 2) return out;
  return {test > 0 ? out[0] : out[1]};  // the jump's target comes first
}

}  // namespace uscope::engine::inproc
