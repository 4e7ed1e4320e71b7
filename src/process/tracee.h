// One thread under ptrace: the thin layer below ptrace.h and remote_call.h, and not for use elsewhere. Every
// function must be called on the thread that seized the tracee; that is a rule of the kernel's.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <cstdint>

#include "base/result.h"

namespace uscope::process {

using Deadline = std::chrono::steady_clock::time_point;

enum class StopKind {
  Trap,     // as asked by interrupt(), or in a group stop: nothing is being delivered
  Signal,   // about to take a signal; resume with it, or it is lost
  Call,     // at the entry or at the exit of a system call
  Gone,     // the thread has exited
  Running,  // did not stop in time
};
struct Stop {
  StopKind kind = StopKind::Running;
  int signal = 0;
};

enum class Seizing { Seized, Gone, Refused };

// Seizes and interrupts. Refused: errno says why.
Seizing seize_and_interrupt(pid_t pid, pid_t tid);
// Waits until the thread stops. A first thread that has exited is not reaped: its parent may be waiting for
// it.
Stop wait_for_stop(pid_t pid, pid_t tid, Deadline deadline);

Result<user_regs_struct> get_registers(pid_t tid);
Status set_registers(pid_t tid, const user_regs_struct& registers);
Result<uint64_t> get_signal_mask(pid_t tid);
Status set_signal_mask(pid_t tid, uint64_t mask);

// Whether these are the registers of 64-bit code; 32-bit programs are not for us.
bool is_64_bit(const user_regs_struct& registers);
// Whether the thread stopped on its way out of a system call.
bool is_in_call(const user_regs_struct& registers);

// A ptrace stop wakes a thread that sleeps in the kernel. Most calls are then restarted by the kernel itself,
// unseen; some (epoll_wait, recv with a timeout, semtimedop ...) end with EINTR, which the program would see
// though it got no signal. For these, sets the result to the code that makes the kernel decide when the
// thread runs on: EINTR if a signal's handler runs, a restart if not. Unlike turning back the program counter
// by hand, this loses no EINTR when a signal arrives in between. True if the registers were changed. A
// restarted wait starts its timeout anew: the kernel no longer knows how much was left.
bool let_call_restart(user_regs_struct& registers);

// Waits with a timeout the kernel goes on with by a system call of its own, restart_syscall, which a seccomp
// filter may not know. A thread that is about to make it can repeat the call that it was in instead, with its
// timeout anew; one that has made it before, so that nobody knows which call that was, sees EINTR, as after a
// signal.
bool wants_restart_call(const user_regs_struct& registers);
void avoid_restart_call(user_regs_struct& registers);

}  // namespace uscope::process
