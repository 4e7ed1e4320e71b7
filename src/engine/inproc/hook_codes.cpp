#include "engine/inproc/hook_codes.h"

#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "engine/inproc/code/served_calls.h"
#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint8_t kFirst = BPF_REG_2, kSecond = BPF_REG_3, kThird = BPF_REG_4, kFourth = BPF_REG_5;

using Instructions = std::vector<bpf_insn>;

constexpr bpf_insn kKeepContext = {BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0};
constexpr bpf_insn kGiveNotice = {BPF_JMP | BPF_CALL, 0, 0, 0, kNotice};

bpf_insn load(uint8_t to, size_t offset) {
  return {BPF_LDX | BPF_MEM | BPF_DW, to, BPF_REG_6, int16_t(offset), 0};
}
bpf_insn set_kind(uint32_t kind) { return {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, int32_t(kind)}; }
// Arguments are ints to these functions.
bpf_insn skip_if(uint8_t how, uint8_t reg, int32_t value, int16_t count) {
  return {uint8_t(BPF_JMP32 | how | BPF_K), reg, 0, count, value};
}

bpf_insn skip_if_null(uint8_t reg, int16_t count) { return {BPF_JMP | BPF_JEQ | BPF_K, reg, 0, count, 0}; }

codegen::Code named(const char* name, Instructions instructions) {
  codegen::Code code;
  code.name = name;
  code.instructions = std::move(instructions);
  code.instructions.push_back({BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0});
  code.instructions.push_back({BPF_JMP | BPF_EXIT, 0, 0, 0, 0});
  return code;
}

}  // namespace

codegen::Code notice_code(uint32_t kind) { return named("notice", {set_kind(kind), kGiveNotice}); }

// A filter of nowhere is how programs ask whether there is seccomp: it always fails.
codegen::Code prctl_code() {
  return named("prctl", {kKeepContext, load(kFirst, offsetof(Registers, di)),
                         load(kSecond, offsetof(Registers, si)), load(kThird, offsetof(Registers, dx)),
                         set_kind(kSandboxNotice), skip_if(BPF_JNE, kFirst, PR_SET_SECCOMP, 3),  // to the end
                         skip_if(BPF_JNE, kSecond, SECCOMP_MODE_FILTER, 1),  // to the notice
                         skip_if_null(kThird, 1),                            // to the end
                         kGiveNotice});
}

codegen::Code syscall_code() {
  static_assert(kSandboxAllNotice == kSandboxNotice + SECCOMP_FILTER_FLAG_TSYNC);
  return named("syscall", {kKeepContext,
                           load(kFirst, offsetof(Registers, di)),
                           load(kSecond, offsetof(Registers, si)),
                           load(kThird, offsetof(Registers, dx)),
                           load(kFourth, offsetof(Registers, cx)),
                           set_kind(kSandboxNotice),
                           skip_if(BPF_JEQ, kFirst, SYS_seccomp, 5),          // on below
                           skip_if(BPF_JNE, kFirst, SYS_prctl, 10),           // to the end
                           skip_if(BPF_JNE, kSecond, PR_SET_SECCOMP, 9),      // to the end
                           skip_if(BPF_JNE, kThird, SECCOMP_MODE_FILTER, 7),  // to the notice
                           skip_if_null(kFourth, 7),                          // to the end
                           {BPF_JMP | BPF_JA, 0, 0, 5, 0},                    // to the notice
                           // seccomp's other operations only ask: to the end.
                           skip_if(BPF_JGT, kSecond, SECCOMP_SET_MODE_FILTER, 5),
                           skip_if(BPF_JEQ, kSecond, SECCOMP_SET_MODE_STRICT, 1),
                           skip_if_null(kFourth, 3),  // to the end
                           {BPF_ALU64 | BPF_AND | BPF_K, kThird, 0, 0, SECCOMP_FILTER_FLAG_TSYNC},
                           {BPF_ALU64 | BPF_ADD | BPF_X, BPF_REG_1, kThird, 0, 0},
                           kGiveNotice});
}

}  // namespace uscope::engine::inproc
