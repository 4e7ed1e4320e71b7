#include "engine/inproc/code/code_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/inproc/code/served_calls.h"
#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {
namespace {

using codegen::MapKind;

constexpr uint8_t kMayGoto = BPF_JMP | 0xe0;  // BPF_JCOND
constexpr uint32_t kAllWords = (uint32_t(1) << (sizeof(Registers) / 8)) - 1;
constexpr uint32_t kAllVectors = (uint32_t(1) << kVectors) - 1;
constexpr uint32_t kFlagsWord = uint32_t(1) << (offsetof(Registers, flags) / 8);

bool is_wide(const bpf_insn& i) { return i.code == (BPF_LD | BPF_IMM | BPF_DW); }
bool is_jump_class(const bpf_insn& i) {
  return BPF_CLASS(i.code) == BPF_JMP || BPF_CLASS(i.code) == BPF_JMP32;
}
bool is_call(const bpf_insn& i) { return i.code == (BPF_JMP | BPF_CALL); }
bool is_exit(const bpf_insn& i) { return i.code == (BPF_JMP | BPF_EXIT); }

bool writes_destination(const bpf_insn& i) {
  switch (BPF_CLASS(i.code)) {
    case BPF_LD:
    case BPF_LDX:
    case BPF_ALU:
    case BPF_ALU64:
      return true;
    default:
      return false;
  }
}

class Analysis {
 public:
  Analysis(const codegen::Code& code, const codegen::Program& program)
      : code_(code), program_(program), all_(code.instructions) {}

  Result<CodeFacts> run() {
    facts_.is_value_load.resize(all_.size());
    facts_.map_of_load.assign(all_.size(), -1);
    is_second_half_.resize(all_.size() + 1);
    for (size_t i = 0; i < all_.size(); i++)
      if (is_wide(all_[i])) is_second_half_[++i] = true;
    TRY_STATUS(take_maps());
    TRY_STATUS(find_functions());
    for (uint32_t i = 0; i < all_.size(); i++) {
      if (is_second_half_[i]) continue;
      TRY_STATUS(look_at(i));
    }
    find_context();
    if (facts_.context_words & kFlagsWord) return refuse(0, "the flags register is not kept by this engine");
    return std::move(facts_);
  }

 private:
  std::unexpected<Error> refuse(uint32_t at, const std::string& why) const {
    return fail(fmt::format("{}: instruction {}: {}", code_.name, at, why));
  }

  Status take_maps() {
    for (const codegen::MapReference& reference : code_.maps) {
      if (reference.instruction + 1 >= all_.size() || !is_wide(all_[reference.instruction]) ||
          reference.map >= program_.maps.size())
        return refuse(reference.instruction, "no such map");
      const codegen::MapSpec& map = program_.maps[reference.map];
      if (reference.is_value && (map.kind != MapKind::Array || reference.value_offset >= map.value_size))
        return refuse(reference.instruction, "no such value");
      facts_.map_of_load[reference.instruction] = int32_t(reference.map);
      facts_.is_value_load[reference.instruction] = reference.is_value;
    }
    return {};
  }

  Status add_function(uint32_t from, bool is_callback) {
    const int64_t to = int64_t(from) + 1 + all_[from].imm;
    if (to <= 0 || to >= int64_t(all_.size()) || is_second_half_[size_t(to)])
      return refuse(from, "calls what is no function");
    starts_.push_back({uint32_t(to), is_callback});
    return {};
  }

  Status find_functions() {
    starts_.push_back({0, false});
    for (uint32_t i = 0; i < all_.size(); i++) {
      if (is_second_half_[i]) continue;
      if (is_call(all_[i]) && all_[i].src_reg == BPF_PSEUDO_CALL) TRY_STATUS(add_function(i, false));
      if (is_wide(all_[i]) && all_[i].src_reg == BPF_PSEUDO_FUNC) TRY_STATUS(add_function(i, true));
    }
    std::ranges::sort(starts_);
    for (auto [start, is_callback] : starts_) {
      if (facts_.functions.empty() || facts_.functions.back() != start) {
        facts_.functions.push_back(start);
        facts_.is_callback.push_back(false);
      }
      if (is_callback) facts_.is_callback.back() = true;
    }
    return {};
  }

  Status look_at(uint32_t at) {
    const bpf_insn& i = all_[at];
    if (i.dst_reg > 10 || i.src_reg > 10) return refuse(at, "no such register");
    facts_.registers |= uint32_t(1) << i.dst_reg;
    if (!is_wide(i) && !is_call(i)) facts_.registers |= uint32_t(1) << i.src_reg;
    if (i.src_reg == 10 || i.dst_reg == 10) facts_.uses_stack = true;
    if (writes_destination(i) && i.dst_reg == 10) return refuse(at, "writes the frame pointer");
    if (is_call(i)) return look_at_call(at);
    if (i.code == kMayGoto) facts_.uses_may_goto = true;
    if (!is_jump_class(i) || is_exit(i)) return {};
    const int64_t to = int64_t(at) + 1 + (i.code == (BPF_JMP32 | BPF_JA) ? i.imm : i.off);
    if (to < 0 || to >= int64_t(all_.size()) || is_second_half_[size_t(to)] ||
        facts_.function_of(uint32_t(to)) != facts_.function_of(at))
      return refuse(at, "jumps to what is no instruction of its function");
    return {};
  }

  Status look_at_call(uint32_t at) {
    const bpf_insn& i = all_[at];
    facts_.registers |= 0x3f;
    if (i.src_reg == BPF_PSEUDO_CALL) return {};
    auto call = i.src_reg == 0 ? served_call(i.imm) : std::nullopt;
    if (!call)
      return refuse(at, fmt::format("calls the kernel's helper {}, which this engine does not have", i.imm));
    facts_.calls_runtime = true;
    facts_.needs_site |= call->needs_site;
    facts_.reads_memory |= call->reads_memory;
    facts_.context_words |= call->context_words;
    facts_.unwinds |= i.imm == codegen::kUnwindStack;
    return {};
  }

  // The generator's scheme: R6 = R1 first, and never again. Then its loads name the words that are needed.
  void find_context() {
    const bool one_function = facts_.functions.size() == 1;
    bool held = one_function && !all_.empty() && all_[0].code == (BPF_ALU64 | BPF_MOV | BPF_X) &&
                all_[0].dst_reg == 6 && all_[0].src_reg == 1;
    for (uint32_t i = 1; held && i < all_.size(); i++)
      if (!is_second_half_[i] && writes_destination(all_[i]) && all_[i].dst_reg == 6) held = false;
    if (!held) {
      facts_.vectors = reads_vectors_somehow() ? kAllVectors : 0;
      read_words(kAllWords & ~kFlagsWord);
      facts_.needs_site = true;
      return;
    }
    facts_.context_in_r6 = true;
    for (uint32_t i = 1; i < all_.size(); i++) {
      if (is_second_half_[i]) continue;
      const bpf_insn& each = all_[i];
      const bool reads = each.src_reg == 6 && !is_call(each) && !is_wide(each) && each.code != kMayGoto;
      if (reads && BPF_CLASS(each.code) == BPF_LDX) {
        read_words(word_at(each.off));
        facts_.vectors |= vector_at(each.off);
      } else if (reads && each.code == (BPF_ALU64 | BPF_MOV | BPF_X) && goes_to_call(i))
        continue;
      else if (reads && BPF_SRC(each.code) == BPF_X) {
        read_words(kAllWords & ~kFlagsWord);
        if (reads_vectors_somehow()) facts_.vectors = kAllVectors;
      }
      if (each.dst_reg == 6 && (BPF_CLASS(each.code) == BPF_ST || BPF_CLASS(each.code) == BPF_STX))
        read_words(kAllWords & ~kFlagsWord);
    }
    if (facts_.context_words != 0) facts_.needs_site = true;
  }
  void read_words(uint32_t words) {
    facts_.context_words |= words;
    facts_.loaded_words |= words;
  }
  static uint32_t word_at(int16_t offset) {
    return offset >= 0 && size_t(offset) < sizeof(Registers) ? uint32_t(1) << (offset / 8) : 0;
  }
  static uint32_t vector_at(int16_t offset) {
    const int32_t number = (offset - int32_t(sizeof(Registers))) / int32_t(kVectorBytes);
    return offset >= int32_t(sizeof(Registers)) && number < int32_t(kVectors) ? uint32_t(1) << number : 0;
  }
  // Where it is not followed which register holds the context.
  bool reads_vectors_somehow() const {
    for (uint32_t i = 0; i < all_.size(); i++)
      if (!is_second_half_[i] && BPF_CLASS(all_[i].code) == BPF_LDX && all_[i].src_reg != 10 &&
          vector_at(all_[i].off) != 0)
        return true;
    return false;
  }
  // Whether the context is handed to a call whose needs are known.
  bool goes_to_call(uint32_t at) const {
    for (uint32_t i = at + 1; i < all_.size() && i < at + 16; i++) {
      if (is_second_half_[i]) continue;
      if (is_call(all_[i])) return all_[i].src_reg == 0 && all_[at].dst_reg >= 1 && all_[at].dst_reg <= 5;
      if (is_jump_class(all_[i])) return false;
    }
    return false;
  }

  const codegen::Code& code_;
  const codegen::Program& program_;
  const std::vector<bpf_insn>& all_;
  CodeFacts facts_;
  std::vector<bool> is_second_half_;
  std::vector<std::pair<uint32_t, bool>> starts_;
};

}  // namespace

x86::RegisterSet CodeFacts::read_at_entry() const {
  using x86::Register;
  // In the order of Registers, up to di.
  static constexpr Register kOrder[] = {Register::r15, Register::r14, Register::r13, Register::r12,
                                        Register::rbp, Register::rbx, Register::r11, Register::r10,
                                        Register::r9,  Register::r8,  Register::rax, Register::rcx,
                                        Register::rdx, Register::rsi, Register::rdi};
  static_assert(offsetof(Registers, di) / 8 + 1 == std::size(kOrder));
  x86::RegisterSet read = 0;
  for (size_t i = 0; i < std::size(kOrder); i++)
    if (loaded_words >> i & 1) read |= bit(kOrder[i]);
  if (loaded_words >> (offsetof(Registers, sp) / 8) & 1) read |= bit(Register::rsp);
  if (unwinds)
    for (Register preserved : {Register::rbx, Register::rbp, Register::rsp, Register::r12, Register::r13,
                               Register::r14, Register::r15})
      read |= bit(preserved);
  for (unsigned i = 0; i < kVectors; i++)
    if (vectors >> i & 1) read |= x86::vector_bit(i);
  return read;
}

bool CodeFacts::is_function(uint32_t instruction) const {
  return std::ranges::binary_search(functions, instruction);
}

size_t CodeFacts::function_of(uint32_t instruction) const {
  return size_t(std::ranges::upper_bound(functions, instruction) - functions.begin()) - 1;
}

Result<CodeFacts> facts_of(const codegen::Code& code, const codegen::Program& program) {
  if (code.instructions.empty()) return fail(code.name + ": has no code");
  return Analysis(code, program).run();
}

}  // namespace uscope::engine::inproc
