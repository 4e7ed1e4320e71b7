#include "process/seccomp_filter.h"

#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "process/info.h"
#include "process/ptrace.h"

namespace uscope::process {
namespace {

// Newer than the C library's headers.
constexpr auto kGetFilter = __ptrace_request(0x420c);  // Linux 4.4
constexpr uint32_t kGetFsBase = 0x1003;

struct Value {
  bool is_known = true;
  uint32_t value = 0;
};
Value merged(Value a, Value b) {
  return a.is_known && b.is_known && a.value == b.value ? a : Value{false, 0};
}

struct State {
  bool is_reached = false;
  Value a, x;
  std::array<Value, BPF_MEMWORDS> memory;

  void join(const State& other) {
    if (!is_reached) {
      *this = other;
      return;
    }
    a = merged(a, other.a);
    x = merged(x, other.x);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = merged(memory[i], other.memory[i]);
  }
};

FilterOutcome outcome_of_result(Value result) {
  if (!result.is_known) return FilterOutcome::Harms;
  switch (result.value & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
      return FilterOutcome::Passes;
    case SECCOMP_RET_ERRNO:
      // Error 0 makes the program believe in a success.
      return (result.value & SECCOMP_RET_DATA) != 0 ? FilterOutcome::Fails : FilterOutcome::Harms;
    default:
      return FilterOutcome::Harms;
  }
}

// Classic BPF jumps only forwards: one pass over the instructions meets each after all that lead to it.
class Walk {
 public:
  Walk(std::span<const sock_filter> filter, const CallToCome& call)
      : filter_(filter), call_(call), states_(filter.size()) {}

  FilterOutcome run() {
    if (filter_.empty()) return FilterOutcome::Harms;
    states_[0].is_reached = true;
    for (size_t i = 0; i < filter_.size() && worst_ != FilterOutcome::Harms; ++i)
      if (states_[i].is_reached) step(i, states_[i]);
    return worst_;
  }

 private:
  void ends(FilterOutcome outcome) { worst_ = std::max(worst_, outcome); }
  void go(uint64_t to, const State& state) {
    if (to >= filter_.size())
      ends(FilterOutcome::Harms);
    else
      states_[to].join(state);
  }
  void step(size_t at, State state);
  Value loaded(uint32_t offset) const;
  bool calculate(uint16_t operation, Value by, Value& a);
  void branch(size_t at, const State& state);

  std::span<const sock_filter> filter_;
  const CallToCome& call_;
  std::vector<State> states_;
  FilterOutcome worst_ = FilterOutcome::Passes;
};

Value Walk::loaded(uint32_t offset) const {
  switch (offset) {
    case offsetof(seccomp_data, nr):
      return {true, call_.number};
    case offsetof(seccomp_data, arch):
      return {true, AUDIT_ARCH_X86_64};
    case offsetof(seccomp_data, args):
      return {call_.knows_first, uint32_t(call_.first_argument)};
    case offsetof(seccomp_data, args) + 4:
      return {call_.knows_first, uint32_t(call_.first_argument >> 32)};
    default:
      return {false, 0};
  }
}

// False: nothing that a filter can hold.
bool Walk::calculate(uint16_t operation, Value by, Value& a) {
  const bool divides = operation == BPF_DIV || operation == BPF_MOD;
  // By zero the kernel ends the filter, with 0: to kill.
  if (divides && (!by.is_known || by.value == 0)) ends(FilterOutcome::Harms);
  const bool is_known = a.is_known && (by.is_known || operation == BPF_NEG) && !(divides && by.value == 0);
  const uint32_t left = a.value, right = by.value;
  uint32_t result = 0;
  switch (operation) {
    case BPF_ADD:
      result = left + right;
      break;
    case BPF_SUB:
      result = left - right;
      break;
    case BPF_MUL:
      result = left * right;
      break;
    case BPF_DIV:
      result = is_known ? left / right : 0;
      break;
    case BPF_MOD:
      result = is_known ? left % right : 0;
      break;
    case BPF_AND:
      result = left & right;
      break;
    case BPF_OR:
      result = left | right;
      break;
    case BPF_XOR:
      result = left ^ right;
      break;
    case BPF_LSH:
      result = left << (right & 31);
      break;
    case BPF_RSH:
      result = left >> (right & 31);
      break;
    case BPF_NEG:
      result = -left;
      break;
    default:
      return false;
  }
  a = {is_known, is_known ? result : 0};
  return true;
}

void Walk::branch(size_t at, const State& state) {
  const sock_filter& i = filter_[at];
  const Value right = BPF_SRC(i.code) == BPF_X ? state.x : Value{true, i.k};
  const uint64_t next = at + 1;
  if (BPF_OP(i.code) == BPF_JA) return go(next + i.k, state);
  const bool is_known = state.a.is_known && right.is_known;
  bool is_true = false;
  switch (BPF_OP(i.code)) {
    case BPF_JEQ:
      is_true = state.a.value == right.value;
      break;
    case BPF_JGT:
      is_true = state.a.value > right.value;
      break;
    case BPF_JGE:
      is_true = state.a.value >= right.value;
      break;
    case BPF_JSET:
      is_true = (state.a.value & right.value) != 0;
      break;
    default:
      return ends(FilterOutcome::Harms);
  }
  if (!is_known || is_true) go(next + i.jt, state);
  if (!is_known || !is_true) go(next + i.jf, state);
}

void Walk::step(size_t at, State state) {
  const sock_filter& i = filter_[at];
  const bool names_word = i.k < BPF_MEMWORDS;
  switch (BPF_CLASS(i.code)) {
    case BPF_LD:
    case BPF_LDX: {
      Value& to = BPF_CLASS(i.code) == BPF_LD ? state.a : state.x;
      const bool loads_call = i.code == (BPF_LD | BPF_W | BPF_ABS);
      if (loads_call)
        to = loaded(i.k);
      else if (BPF_MODE(i.code) == BPF_IMM)
        to = {true, i.k};
      else if (BPF_MODE(i.code) == BPF_LEN)
        to = {true, sizeof(seccomp_data)};
      else if (BPF_MODE(i.code) == BPF_MEM && names_word)
        to = state.memory[i.k];
      else
        return ends(FilterOutcome::Harms);
      break;
    }
    case BPF_ST:
    case BPF_STX:
      if (!names_word) return ends(FilterOutcome::Harms);
      state.memory[i.k] = BPF_CLASS(i.code) == BPF_ST ? state.a : state.x;
      break;
    case BPF_ALU:
      if (!calculate(BPF_OP(i.code), BPF_SRC(i.code) == BPF_X ? state.x : Value{true, i.k}, state.a))
        return ends(FilterOutcome::Harms);
      break;
    case BPF_MISC:
      if (BPF_MISCOP(i.code) == BPF_TAX)
        state.x = state.a;
      else
        state.a = state.x;
      break;
    case BPF_JMP:
      return branch(at, state);
    default:  // BPF_RET
      return ends(outcome_of_result(BPF_RVAL(i.code) == BPF_A ? state.a : Value{true, i.k}));
  }
  go(at + 1, state);
}

Result<StatusFile> read_status(const std::string& path) {
  TRY(std::string text, read_text_file(path));
  return parse_status(text);
}

using Filter = std::vector<sock_filter>;

// Nothing: there are none, we may not look, or the kernel does not know them any more.
std::optional<std::vector<Filter>> filters_of(pid_t tid) {
  std::vector<Filter> filters;
  for (uintptr_t number = 0;; ++number) {
    auto* const which = reinterpret_cast<void*>(number);
    const long size = ::ptrace(kGetFilter, tid, which, nullptr);
    if (size < 0) return errno == ENOENT && number > 0 ? std::optional(std::move(filters)) : std::nullopt;
    Filter filter(static_cast<size_t>(size));
    if (::ptrace(kGetFilter, tid, which, filter.data()) != size) return std::nullopt;
    filters.push_back(std::move(filter));
  }
}

// With arguments that make it succeed where it is allowed, and change nothing.
bool succeeds(const CallToCome& call) {
  char bytes[64] = {};
  iovec one{bytes, 1}, other{bytes + 1, 1};
  const pid_t self = pid_t(::syscall(SYS_getpid));
  switch (call.number) {
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getuid:
    case SYS_getgid:
      return ::syscall(call.number) >= 0;
    case SYS_process_vm_readv:
      return ::syscall(SYS_process_vm_readv, self, &one, 1, &other, 1, 0) == 1;
    case SYS_sigaltstack:
      return ::syscall(SYS_sigaltstack, nullptr, bytes) == 0;
    case SYS_arch_prctl:
      return ::syscall(SYS_arch_prctl, kGetFsBase, bytes) == 0;
    case SYS_prctl:
      return ::syscall(SYS_prctl, PR_GET_NAME, bytes) == 0;
    case SYS_futex:
      return ::syscall(SYS_futex, bytes, FUTEX_WAKE, 1, nullptr) == 0;
    case SYS_clock_gettime:
      return ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, bytes) == 0;
    case SYS_kill:
      return ::syscall(SYS_kill, self, 0) == 0;
    case SYS_restart_syscall:  // there is nothing to restart
      return ::syscall(SYS_restart_syscall) == -1 && errno == EINTR;
    case SYS_tgkill:
      return ::syscall(SYS_tgkill, self, ::syscall(SYS_gettid), 0) == 0;
    default:
      return false;
  }
}

// In a child of ours, which may be killed.
FilterOutcome try_out(const CallToCome& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool has_succeeded = succeeds(call);
    ::_exit(has_succeeded ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return FilterOutcome::Harms;
  return WEXITSTATUS(status) == 0 ? FilterOutcome::Passes : FilterOutcome::Fails;
}

// In a container the runtime puts one filter on every process, on us as on the target; a filter that the
// program added itself makes its count higher than ours.
bool has_only_ours(const StatusFile& theirs, const StatusFile& ours) {
  return ours.seccomp == Seccomp::Filter && theirs.seccomp_filters && ours.seccomp_filters &&
         *theirs.seccomp_filters <= *ours.seccomp_filters;
}

}  // namespace

FilterOutcome outcome_of(std::span<const sock_filter> filter, const CallToCome& call) {
  return Walk(filter, call).run();
}

FilterOutcome SeccompOf::judge(const Filter& filter, const CallToCome& call) {
  auto same = [&](const Known& known) {
    return known.call == call.number && filter.size() == known.filter.size() &&
           std::memcmp(filter.data(), known.filter.data(), filter.size() * sizeof filter[0]) == 0;
  };
  if (auto known = std::ranges::find_if(known_, same); known != known_.end()) return known->outcome;
  const FilterOutcome outcome = filter.empty() ? process::try_out(call) : outcome_of(filter, call);
  known_.push_back({filter, call.number, outcome});
  return outcome;
}

FilterOutcome SeccompOf::outcome(pid_t tid, const CallToCome& call) {
  is_guess_ = false;
  if (auto filters = filters_of(tid)) {
    FilterOutcome worst = FilterOutcome::Passes;
    for (const Filter& filter : *filters) worst = std::max(worst, judge(filter, call));
    return worst;
  }
  // A thread that has ended meanwhile makes no call.
  const auto theirs = read_status(fmt::format("/proc/{}/task/{}/status", pid_, tid));
  if (!theirs || theirs->seccomp == Seccomp::Off) return FilterOutcome::Passes;
  if (theirs->seccomp == Seccomp::Strict) return FilterOutcome::Harms;
  const auto ours = read_status("/proc/thread-self/status");
  if (ours && has_only_ours(*theirs, *ours)) return judge({}, call);
  is_guess_ = true;
  return FilterOutcome::Harms;
}

Status check_seccomp(const SeizedProcess& process, std::span<const CallToCome> calls) {
  SeccompOf seccomp(process.pid());
  const char* const kernel = "use --engine kernel";
  for (const SeizedThread& thread : process.threads())
    for (const CallToCome& call : calls) {
      const FilterOutcome outcome = seccomp.outcome(thread.tid, call);
      if (outcome == FilterOutcome::Harms)
        return fail(Error(fmt::format("process {} is under a seccomp filter that could kill it for a system "
                                      "call of a probe",
                                      process.pid()))
                        .with_hint(seccomp.is_guess()
                                       ? "with CAP_SYS_ADMIN uscope can look at the filter: try "
                                         "sudo; or use --engine kernel"
                                       : kernel));
      if (outcome == FilterOutcome::Fails && !call.may_fail)
        return fail(Error(fmt::format("process {} is under a seccomp filter that forbids a system call which "
                                      "the script's probes would make in it",
                                      process.pid()))
                        .with_hint(kernel));
    }
  return {};
}

}  // namespace uscope::process
