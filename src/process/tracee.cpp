#include "process/tracee.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "process/proc_dir.h"

namespace uscope::process {
namespace {

// Inside the kernel only; normally never seen by a program. "Restart unless a handler runs, then EINTR."
constexpr long kErestartNoHand = 514, kErestartRestartBlock = 516;
constexpr uint64_t kUserCode64 = 0x33;  // the code segment of 64-bit programs
constexpr int kCallStop = SIGTRAP | 0x80;

// System calls that sleep, can end with a plain EINTR when woken without a signal, and have done nothing by
// then: the same arguments mean the same again. (connect continues the connection it began, as the kernel's
// own restart does.)
bool can_be_repeated(long number) {
  switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
    case SYS_futex:
    case SYS_futex_waitv:
      return true;
    default:
      return false;
  }
}

Stop stop_from(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
    return {StopKind::Gone};
  int signal = info.si_status & 0xff, event = info.si_status >> 8;
  if (event == PTRACE_EVENT_STOP) return {StopKind::Trap};
  if (info.si_status == kCallStop) return {StopKind::Call};
  return {StopKind::Signal, signal};
}

// What the thread has to report, if anything.
Stop poll_stop(pid_t pid, pid_t tid) {
  siginfo_t info{};
  const int common = WNOHANG | __WALL | __WNOTHREAD;
  int result = ::waitid(P_PID, id_t(tid), &info, WSTOPPED | (tid == pid ? 0 : WEXITED) | common);
  if (result == 0 && info.si_pid == 0 && tid == pid)
    result = ::waitid(P_PID, id_t(tid), &info, WEXITED | WNOWAIT | common);
  if (result != 0) return {errno == EINTR ? StopKind::Running : StopKind::Gone};
  return info.si_pid == 0 ? Stop{} : stop_from(info);
}

}  // namespace

Seizing seize_and_interrupt(pid_t pid, pid_t tid) {
  // Never PTRACE_O_EXITKILL: the target must outlive us whatever happens.
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
    int why = errno;
    if (why == ESRCH || is_dead_thread(pid, tid)) return Seizing::Gone;
    errno = why;
    return Seizing::Refused;
  }
  ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  return Seizing::Seized;
}

// The kernel signals a tracer whenever a tracee of it stops. Only a hint: any thread of ours that does not
// block the signal may have it instead, or none if it is ignored.
static void wait_for_child_signal(std::chrono::microseconds at_most) {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  const timespec limit{0, std::chrono::nanoseconds(at_most).count()};
  ::sigtimedwait(&child, nullptr, &limit);
}

Stop wait_for_stop(pid_t pid, pid_t tid, Deadline deadline) {
  using namespace std::chrono_literals;
  // A thread that runs elsewhere stops sooner than a sleep ends; one that needs our processor can do so only
  // while we sleep.
  constexpr auto kLookFor = 20us;
  const Deadline look_until = std::chrono::steady_clock::now() + kLookFor;
  auto pause = 50us;
  for (bool has_slept = false;;) {
    if (Stop stop = poll_stop(pid, tid); stop.kind != StopKind::Running) return stop;
    const auto now = std::chrono::steady_clock::now();
    if (now < look_until) continue;
    if (now >= deadline) return {StopKind::Running};
    // A first thread that exits while others live is not reported to anybody.
    if (tid == pid && has_slept && is_dead_thread(pid, tid)) return {StopKind::Gone};
    wait_for_child_signal(pause);
    has_slept = true;
    if (pause < 500us) pause *= 2;
  }
}

Result<user_regs_struct> get_registers(pid_t tid) {
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0)
    return fail(Error::from_errno(fmt::format("reading the registers of thread {}", tid), errno));
  return registers;
}

Status set_registers(pid_t tid, const user_regs_struct& registers) {
  if (::ptrace(PTRACE_SETREGS, tid, nullptr, &registers) != 0)
    return fail(Error::from_errno(fmt::format("setting the registers of thread {}", tid), errno));
  return {};
}

Result<uint64_t> get_signal_mask(pid_t tid) {
  uint64_t mask = 0;
  if (::ptrace(__ptrace_request(PTRACE_GETSIGMASK), tid, sizeof mask, &mask) != 0)
    return fail(Error::from_errno(fmt::format("reading the signal mask of thread {}", tid), errno));
  return mask;
}

Status set_signal_mask(pid_t tid, uint64_t mask) {
  if (::ptrace(__ptrace_request(PTRACE_SETSIGMASK), tid, sizeof mask, &mask) != 0)
    return fail(Error::from_errno(fmt::format("setting the signal mask of thread {}", tid), errno));
  return {};
}

bool is_64_bit(const user_regs_struct& registers) { return registers.cs == kUserCode64; }

bool is_in_call(const user_regs_struct& registers) { return long(registers.orig_rax) >= 0; }

bool let_call_restart(user_regs_struct& registers) {
  bool ended_early = is_64_bit(registers) && is_in_call(registers) && long(registers.rax) == -EINTR;
  if (!ended_early || !can_be_repeated(long(registers.orig_rax))) return false;
  registers.rax = uint64_t(-kErestartNoHand);
  return true;
}

bool wants_restart_call(const user_regs_struct& registers) {
  return is_64_bit(registers) && is_in_call(registers) && long(registers.rax) == -kErestartRestartBlock;
}

void avoid_restart_call(user_regs_struct& registers) {
  registers.rax = uint64_t(long(registers.orig_rax) == SYS_restart_syscall ? -EINTR : -kErestartNoHand);
}

}  // namespace uscope::process
