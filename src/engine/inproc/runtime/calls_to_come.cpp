#include "engine/inproc/runtime/calls_to_come.h"

#include <linux/bpf.h>

#include <algorithm>
#include <optional>

#include "engine/inproc/runtime/in_target/system_calls.h"

namespace uscope::engine::inproc {
namespace {

using process::CallToCome;

enum class Need { None, IfAllowed, Must };

bool calls(const codegen::Program& program, std::initializer_list<int32_t> helpers) {
  return std::ranges::any_of(program.codes, [&](const codegen::Code& code) {
    return std::ranges::any_of(code.instructions, [&](const bpf_insn& each) {
      return each.code == (BPF_JMP | BPF_CALL) && each.src_reg == 0 &&
             std::ranges::find(helpers, each.imm) != helpers.end();
    });
  });
}

// What a script would show of a call that fails is no value: there it must not fail.
Need need_of(SystemCall call, const codegen::Program& program, const CallNeeds& needs) {
  auto if_called = [&](std::initializer_list<int32_t> helpers) {
    return calls(program, helpers) ? Need::Must : Need::None;
  };
  switch (call) {
    case kGetPid:  // in a forked child that is followed, and before an exec
      return Need::IfAllowed;
    case kGetTid:
      return calls(program, {BPF_FUNC_get_current_pid_tgid, BPF_FUNC_get_ns_current_pid_tgid,
                             BPF_FUNC_send_signal_thread})
                 ? Need::Must
                 : Need::IfAllowed;
    case kProcessVmReadv:  // a new thread's id is looked for
      return needs.reads_memory ? Need::Must : Need::IfAllowed;
    case kSigaltstack:  // a hit while another is being handled
      return Need::IfAllowed;
    case kFutex:  // notices
      return Need::IfAllowed;
    case kArchPrctl:
      return needs.has_rdfsbase ? Need::None : Need::Must;
    case kClockGetTime:  // where ticks do not serve
      return if_called({BPF_FUNC_ktime_get_ns, BPF_FUNC_ktime_get_boot_ns, BPF_FUNC_ktime_get_tai_ns,
                        codegen::kEnterFunction, codegen::kLeaveFunction});
    case kGetUid:
    case kGetGid:
      return if_called({BPF_FUNC_get_current_uid_gid});
    case kPrctl:
      return if_called({BPF_FUNC_get_current_comm});
    case kKill:
      return if_called({BPF_FUNC_send_signal});
    case kTgKill:
      return if_called({BPF_FUNC_send_signal_thread});
  }
  return Need::None;  // no call of ours
}

}  // namespace

std::vector<CallToCome> calls_to_come(const codegen::Program& program, const CallNeeds& needs) {
  constexpr uint32_t kMostCalls = 512;
  std::vector<CallToCome> all;
  for (uint32_t number = 0; number < kMostCalls; ++number) {
    const Need need = need_of(SystemCall(number), program, needs);
    if (need == Need::None) continue;
    CallToCome call{number, need == Need::IfAllowed, false, 0};
    call.knows_first = number == kPrctl || number == kArchPrctl;
    if (call.knows_first) call.first_argument = number == kPrctl ? kGetName : kArchGetFs;
    all.push_back(call);
  }
  return all;
}

}  // namespace uscope::engine::inproc
