// A process with all its threads stopped by ptrace, for as short as can be: seize, look and change, let go.
//
// with_seized() runs the work on a thread of its own. ptrace belongs to the thread that seized, and the
// kernel lets go of everything a thread holds when that thread ends; so whatever happens, nothing stays
// stopped or attached when with_seized() has returned, not even a thread of the target that never came to a
// stop.
//
// The target does not notice: signals that arrive meanwhile are delivered afterwards, once each; calls that
// it sleeps in go on (see tracee.h; a wait with a timeout may start its timeout anew, above all under a
// seccomp filter that does not let the kernel's own restart pass); a stopped job stays
// stopped. Threads it creates meanwhile are stopped too, threads that exit are forgotten. It does not follow
// fork, and does not stop a vfork child that shares the target's memory; but then the parent's thread is
// asleep in the kernel and cannot be stopped, so with_seized() waits for it, or gives up and says so.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "process/memory.h"

namespace uscope::process {

struct SeizeOptions {
  // How long threads may be held while another does not stop yet. Then all run on, and it is tried again ...
  std::chrono::milliseconds hold{100};
  // ... until this much time has passed in all; longer where a thread just does not get to run.
  std::chrono::milliseconds patience{3000};
};

struct SeizedThread {
  pid_t tid = 0;
  bool stopped = false;
  bool exited = false;
  // A signal that it was about to take; it takes it when let go.
  int held_signal = 0;
  // Its registers while a RemoteCaller makes it run something else.
  std::optional<user_regs_struct> set_aside;
};

class SeizedProcess {
 public:
  SeizedProcess(const SeizedProcess&) = delete;
  SeizedProcess& operator=(const SeizedProcess&) = delete;
  ~SeizedProcess();

  pid_t pid() const { return pid_; }
  std::span<const SeizedThread> threads() const { return threads_; }

  // The registers as the thread itself will find them when let go. A thread that was stopped inside a system
  // call has orig_rax >= 0 and, if the kernel will repeat the call, a result in rax from -512 to -516: it
  // will then run on at rip - 2, so whoever moves rip must move it to where the two bytes before it are a
  // `syscall` too.
  Result<user_regs_struct> registers(pid_t tid) const;
  Status set_registers(pid_t tid, const user_regs_struct& registers);

  RemoteMemory& memory() { return memory_; }

 private:
  friend class RemoteCaller;
  friend class SeizeAttempt;
  SeizedProcess(pid_t pid, RemoteMemory memory) : pid_(pid), memory_(std::move(memory)) {}
  const SeizedThread* find(pid_t tid) const;
  SeizedThread* find(pid_t tid) { return const_cast<SeizedThread*>(std::as_const(*this).find(tid)); }

  pid_t pid_;
  RemoteMemory memory_;
  std::vector<SeizedThread> threads_;
};

// Stops every thread of a process, does the work, lets it go. The Error is the work's own, or says what could
// not be stopped and why.
Status with_seized(pid_t pid, const SeizeOptions& options, const std::function<Status(SeizedProcess&)>& work);

}  // namespace uscope::process
