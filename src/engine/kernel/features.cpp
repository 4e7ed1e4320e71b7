#include "engine/kernel/features.h"

#include <array>
#include <cstring>
#include <string_view>

#include "base/fd.h"
#include "engine/kernel/bpf_calls.h"
#include "engine/kernel/uprobes.h"

namespace uscope::engine::kernel {
namespace {

// Linux 6.1's header has these up to get_tai_ns (208).
constexpr int kDpath = 147, kGetFuncIp = 173, kLoop = 181, kLookupPercpuElem = 195, kGetTaiNs = 208;

Fd load(std::array<bpf_insn, 3>& instructions, uint32_t attach_type, char* log, uint32_t log_size) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.prog_type = BPF_PROG_TYPE_KPROBE;
  attributes.expected_attach_type = attach_type;
  attributes.insns = uint64_t(instructions.data());
  attributes.insn_cnt = uint32_t(instructions.size());
  attributes.license = uint64_t("GPL");
  attributes.log_buf = uint64_t(log);
  attributes.log_size = log_size;
  attributes.log_level = log != nullptr ? 1 : 0;
  return Fd(bpf_call(BPF_PROG_LOAD, &attributes, sizeof attributes));
}

std::array<bpf_insn, 3> calling(int helper) {
  return {bpf_insn{BPF_JMP | BPF_CALL, 0, 0, 0, helper}, bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
          bpf_insn{BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
}

bool knows_helper(int helper) {
  auto instructions = calling(helper);
  std::array<char, 4096> log{};
  if (load(instructions, 0, log.data(), log.size()).is_open()) return true;
  std::string_view words(log.data());
  bool is_unknown = words.find("invalid func ") != words.npos || words.find("unknown func ") != words.npos ||
                    words.find("program of this type cannot use helper") != words.npos;
  return !words.empty() && !is_unknown;
}

}  // namespace

Features find_features() {
  Features features;
  std::array<bpf_insn, 3> nothing = {bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
                                     bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
                                     bpf_insn{BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  lift_memlock_limit();
  features.is_privileged = load(nothing, 0, nullptr, 0).is_open();
  if (!features.is_privileged) return features;
  features.get_func_ip = knows_helper(kGetFuncIp);
  features.lookup_percpu_elem = knows_helper(kLookupPercpuElem);
  features.loop = knows_helper(kLoop);
  features.get_tai_ns = knows_helper(kGetTaiNs);
  features.dpath = knows_helper(kDpath);
  Fd multi = load(nothing, kTraceUprobeMulti, nullptr, 0);
  features.uprobe_multi = multi.is_open() && find_multi_support(multi.get()).is_there;
  return features;
}

}  // namespace uscope::engine::kernel
