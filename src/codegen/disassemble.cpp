#include "codegen/disassemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace uscope::codegen {
namespace {

using Names = std::array<const char*, __BPF_FUNC_MAX_ID>;

constexpr Names kHelpers = {
#define HELPER_NAME(name) #name
    __BPF_FUNC_MAPPER(HELPER_NAME)
#undef HELPER_NAME
};

std::string helper_name(int32_t number) {
  if (number < 0 || size_t(number) >= kHelpers.size()) return fmt::format("helper {}", number);
  return kHelpers[size_t(number)];
}

std::string_view width_name(uint8_t code) {
  switch (BPF_SIZE(code)) {
    case BPF_B:
      return "u8";
    case BPF_H:
      return "u16";
    case BPF_W:
      return "u32";
    default:
      return "u64";
  }
}

std::string memory(const bpf_insn& insn, unsigned base) {
  std::string offset =
      insn.off == 0 ? "" : fmt::format(" {} {}", insn.off < 0 ? '-' : '+', std::abs(insn.off));
  return fmt::format("*({}*)(r{}{})", width_name(insn.code), base, offset);
}

std::string_view alu_sign(uint8_t code) {
  switch (BPF_OP(code)) {
    case BPF_ADD:
      return "+=";
    case BPF_SUB:
      return "-=";
    case BPF_MUL:
      return "*=";
    case BPF_DIV:
      return "/=";
    case BPF_OR:
      return "|=";
    case BPF_AND:
      return "&=";
    case BPF_LSH:
      return "<<=";
    case BPF_RSH:
      return ">>=";
    case BPF_MOD:
      return "%=";
    case BPF_XOR:
      return "^=";
    case BPF_ARSH:
      return "s>>=";
    default:
      return "=";
  }
}

std::string_view jump_sign(uint8_t code) {
  switch (BPF_OP(code)) {
    case BPF_JEQ:
      return "==";
    case BPF_JNE:
      return "!=";
    case BPF_JGT:
      return ">";
    case BPF_JGE:
      return ">=";
    case BPF_JLT:
      return "<";
    case BPF_JLE:
      return "<=";
    case BPF_JSGT:
      return "s>";
    case BPF_JSGE:
      return "s>=";
    case BPF_JSLT:
      return "s<";
    case BPF_JSLE:
      return "s<=";
    default:
      return "&";
  }
}

std::string alu(const bpf_insn& insn) {
  unsigned dst = insn.dst_reg, src = insn.src_reg;
  char file = BPF_CLASS(insn.code) == BPF_ALU64 ? 'r' : 'w';
  if (BPF_OP(insn.code) == BPF_NEG) return fmt::format("{0}{1} = -{0}{1}", file, dst);
  if (BPF_OP(insn.code) == BPF_END) return fmt::format("r{0} = be{1} r{0}", dst, insn.imm);
  if (BPF_SRC(insn.code) == BPF_X)
    return fmt::format("{0}{1} {2} {0}{3}", file, dst, alu_sign(insn.code), src);
  return fmt::format("{}{} {} {}", file, dst, alu_sign(insn.code), insn.imm);
}

std::string jump(const bpf_insn& insn, size_t at) {
  int64_t target = int64_t(at) + 1 + insn.off;
  if (BPF_OP(insn.code) == BPF_EXIT) return "exit";
  if (BPF_OP(insn.code) == BPF_CALL) return "call " + helper_name(insn.imm);
  if (BPF_OP(insn.code) == 0xe0) return fmt::format("may_goto {}", target);
  if (BPF_OP(insn.code) == BPF_JA) return fmt::format("goto {}", target);
  std::string right =
      BPF_SRC(insn.code) == BPF_X ? fmt::format("r{}", unsigned(insn.src_reg)) : fmt::to_string(insn.imm);
  return fmt::format("if r{} {} {} goto {}", unsigned(insn.dst_reg), jump_sign(insn.code), right, target);
}

std::string atomic(const bpf_insn& insn) {
  std::string place = memory(insn, insn.dst_reg);
  unsigned src = insn.src_reg;
  if (insn.imm == BPF_XCHG) return fmt::format("r{} = xchg {}, r{}", src, place, src);
  if (insn.imm == BPF_CMPXCHG) return fmt::format("r0 = cmpxchg {}, r0, r{}", place, src);
  std::string_view fetch = (insn.imm & BPF_FETCH) ? "fetch " : "";
  return fmt::format("lock {}{} {} r{}", fetch, place, alu_sign(uint8_t(insn.imm & 0xf0)), src);
}

std::string plain(const bpf_insn& insn, size_t at) {
  switch (BPF_CLASS(insn.code)) {
    case BPF_ALU:
    case BPF_ALU64:
      return alu(insn);
    case BPF_JMP:
    case BPF_JMP32:
      return jump(insn, at);
    case BPF_LDX:
      return fmt::format("r{} = {}", unsigned(insn.dst_reg), memory(insn, insn.src_reg));
    case BPF_ST:
      return fmt::format("{} = {}", memory(insn, insn.dst_reg), insn.imm);
    case BPF_STX:
      if (BPF_MODE(insn.code) == BPF_ATOMIC) return atomic(insn);
      return fmt::format("{} = r{}", memory(insn, insn.dst_reg), unsigned(insn.src_reg));
    default:
      return fmt::format("code {:#x}", insn.code);
  }
}

std::string_view kind_name(MapKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"hash",  "lruhash",     "percpuhash", "percpulruhash",
                                                      "array", "percpuarray", "ringbuffer"};
  return kNames[size_t(kind)];
}

}  // namespace

std::string disassemble(const Code& code, const Program& program) {
  std::string out;
  auto to = std::back_inserter(out);
  for (size_t i = 0; i < code.instructions.size(); i++) {
    const bpf_insn& insn = code.instructions[i];
    if (std::ranges::find(code.functions, i) != code.functions.end()) fmt::format_to(to, "function {}:\n", i);
    if (insn.code != (BPF_LD | BPF_IMM | BPF_DW)) {
      fmt::format_to(to, "{}: {}\n", i, plain(insn, i));
      continue;
    }
    const MapReference* named = nullptr;
    for (const MapReference& reference : code.maps)
      if (reference.instruction == i) named = &reference;
    unsigned dst = insn.dst_reg;
    if (named && named->map < program.maps.size()) {
      fmt::format_to(to, "{}: r{} = map {}\n", i, dst, program.maps[named->map].name);
    } else if (insn.src_reg == BPF_PSEUDO_FUNC) {
      fmt::format_to(to, "{}: r{} = function {}\n", i, dst, int64_t(i) + insn.imm + 1);
    } else if (i + 1 < code.instructions.size()) {
      uint64_t high = uint32_t(code.instructions[i + 1].imm);
      fmt::format_to(to, "{}: r{} = {:#x}\n", i, dst, high << 32 | uint32_t(insn.imm));
    }
    i++;
  }
  return out;
}

std::string disassemble(const Program& program) {
  std::string out;
  for (const MapSpec& map : program.maps) {
    fmt::format_to(std::back_inserter(out), "map {}: {}, key {}, value {}, {} entries\n", map.name,
                   kind_name(map.kind), map.key_size, map.value_size, map.max_entries);
  }
  for (const Code& code : program.codes) out += "\n" + code.name + ":\n" + disassemble(code, program);
  return out;
}

}  // namespace uscope::codegen
