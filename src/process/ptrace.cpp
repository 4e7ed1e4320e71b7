#include "process/ptrace.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <future>
#include <thread>

#include "base/fd.h"
#include "process/info.h"
#include "process/proc_dir.h"
#include "process/seccomp_filter.h"
#include "process/tracee.h"

namespace uscope::process {

namespace {

// In all, on a busy machine: one that gets to run at once stops in some 20 microseconds.
constexpr std::chrono::milliseconds kForEachThread{1};

}  // namespace

// One try at stopping a whole process. `busy` afterwards: a thread did not stop in time, a later try may
// work; `starved`: that thread could stop at once, if only it got to run.
class SeizeAttempt {
 public:
  SeizeAttempt(pid_t pid, std::chrono::milliseconds hold, Deadline deadline)
      : pid_(pid), hold_(hold), deadline_(deadline) {}

  Status run(const std::function<Status(SeizedProcess&)>& work);
  bool busy() const { return busy_; }
  bool starved() const { return starved_; }

 private:
  Status stop_every_thread(SeizedProcess& process);
  Status seize_new_threads(SeizedProcess& process, bool& found_new);
  Status wait_for_all(SeizedProcess& process, bool renews);
  void renew_deadline();
  Status mend_call(pid_t tid);
  bool is_complete(const SeizedProcess& process) const;
  Error why_refused(pid_t tid, int error_number);
  Error why_not_stopped(pid_t tid);

  pid_t pid_;
  std::chrono::milliseconds hold_;
  Deadline deadline_, latest_ = deadline_;
  SeccompOf seccomp_{pid_};
  bool busy_ = false;
  bool starved_ = false;
};

Status SeizeAttempt::run(const std::function<Status(SeizedProcess&)>& work) {
  auto memory = RemoteMemory::open(pid_);
  if (!memory) {
    TRY(ProcessInfo info, read_process(pid_));
    TRY_STATUS(check_may_attach(info));
    return fail(std::move(memory).error());
  }
  SeizedProcess process(pid_, std::move(*memory));
  TRY_STATUS(stop_every_thread(process));
  // An exec may have come before the last thread stopped; what was opened would still be the old address
  // space.
  TRY(process.memory_, RemoteMemory::open(pid_));
  return work(process);
}

Status SeizeAttempt::stop_every_thread(SeizedProcess& process) {
  // Threads that are not stopped yet can create others, so list again until a listing brings nothing new.
  for (bool is_first = true;; is_first = false) {
    bool found_new = false;
    TRY_STATUS(seize_new_threads(process, found_new));
    if (is_first) {
      latest_ += process.threads_.size() * kForEachThread;
      renew_deadline();
    }
    TRY_STATUS(wait_for_all(process, is_first));
    if (!found_new && is_complete(process)) break;
    // That the first listing brings threads says nothing.
    if (!is_first && std::chrono::steady_clock::now() >= deadline_) {
      busy_ = true;
      return fail(fmt::format("the threads of process {} come and go faster than they can be stopped", pid_));
    }
  }
  if (process.threads_.empty()) {
    TRY([[maybe_unused]] ProcessInfo info, read_process(pid_));  // its Error says more, if it has one
    return fail(fmt::format("process {} has exited", pid_));
  }
  return {};
}

// Before anything else: whatever follows, the thread may be let go.
Status SeizeAttempt::mend_call(pid_t tid) {
  auto registers = get_registers(tid);
  if (!registers) return {};  // killed meanwhile
  const CallToCome restart{SYS_restart_syscall, false, false, 0};
  if (wants_restart_call(*registers) && seccomp_.outcome(tid, restart) != FilterOutcome::Passes)
    avoid_restart_call(*registers);
  else if (!let_call_restart(*registers))
    return {};
  return process::set_registers(tid, *registers);
}

Status SeizeAttempt::seize_new_threads(SeizedProcess& process, bool& found_new) {
  const size_t known = process.threads_.size();
  for (pid_t tid : thread_ids(pid_)) {
    auto before = std::span(process.threads_).first(known);
    if (std::ranges::binary_search(before, tid, {}, &SeizedThread::tid)) continue;
    switch (seize_and_interrupt(pid_, tid)) {
      case Seizing::Seized:
        process.threads_.push_back({.tid = tid});
        found_new = true;
        break;
      case Seizing::Gone:
        break;
      case Seizing::Refused:
        return fail(why_refused(tid, errno));
    }
  }
  std::ranges::sort(process.threads_, {}, &SeizedThread::tid);
  return {};
}

// Each thread that has stopped gives the next as much time again: to stop thousands takes longer than any
// of them may take.
void SeizeAttempt::renew_deadline() {
  deadline_ = std::max(deadline_, std::min(std::chrono::steady_clock::now() + hold_, latest_));
}

Status SeizeAttempt::wait_for_all(SeizedProcess& process, bool renews) {
  for (SeizedThread& thread : process.threads_) {
    if (thread.stopped) continue;
    Stop stop = wait_for_stop(pid_, thread.tid, deadline_);
    if (stop.kind == StopKind::Running) {
      busy_ = true;
      return fail(why_not_stopped(thread.tid));
    }
    if (stop.kind == StopKind::Gone) {
      thread.exited = true;
      continue;
    }
    thread.stopped = true;
    thread.held_signal = stop.signal;
    TRY_STATUS(mend_call(thread.tid));
    if (renews) renew_deadline();
  }
  std::erase_if(process.threads_, [](const SeizedThread& thread) { return thread.exited; });
  return {};
}

// A listing of /proc/PID/task can end early when a thread exits under it: believe it only if it has as many
// threads as the process says it has, each of them stopped by us or dead.
bool SeizeAttempt::is_complete(const SeizedProcess& process) const {
  auto text = read_text_file(fmt::format("/proc/{}/status", pid_));
  if (!text) return true;  // the whole process is gone; no threads are left to us either
  auto status = parse_status(*text);
  std::vector<pid_t> tids = thread_ids(pid_);
  if (!status || status->threads != tids.size()) return false;
  return std::ranges::all_of(tids, [&](pid_t tid) { return process.find(tid) || is_dead_thread(pid_, tid); });
}

Error SeizeAttempt::why_refused(pid_t tid, int error_number) {
  auto info = read_process(pid_);
  if (!info) return std::move(info).error();
  // The thread of an earlier try may not have let go yet: it does so while it exits. (TracerPid is a thread's
  // id.)
  pid_t tracer = info->status.tracer;
  if (tracer != 0 && ::access(fmt::format("/proc/self/task/{}", tracer).c_str(), F_OK) == 0) busy_ = true;
  if (auto may = check_may_attach(*info); !may) return std::move(may).error();
  busy_ = true;  // allowed by now
  return Error::from_errno(fmt::format("attaching to thread {} of process {}", tid, pid_), error_number);
}

Error SeizeAttempt::why_not_stopped(pid_t tid) {
  auto text = read_text_file(fmt::format("/proc/{}/task/{}/stat", pid_, tid));
  auto stat = text ? parse_stat(*text) : Result<StatFile>(fail("gone"));
  if (stat && stat->state == 'R') {
    starved_ = true;
    return Error(fmt::format("thread {} of process {} did not get to run in time to be stopped", tid, pid_))
        .with_hint(
            "the machine is busy, or the process has little of it (nice, a cgroup's limit); try again");
  }
  std::string where = "the kernel";
  auto channel = read_text_file(fmt::format("/proc/{}/task/{}/wchan", pid_, tid));
  if (channel && !channel->empty() && *channel != "0") where = *channel;
  return Error(fmt::format("thread {} of process {} cannot be stopped, it waits in {}", tid, pid_, where))
      .with_hint("such a wait (for a vfork child, or a disk) cannot be interrupted; try again later");
}

SeizedProcess::~SeizedProcess() {
  // A thread that has not stopped is let go by the kernel when our thread ends, see with_seized().
  for (const SeizedThread& thread : threads_)
    if (thread.stopped) ::ptrace(PTRACE_DETACH, thread.tid, nullptr, thread.held_signal);
}

const SeizedThread* SeizedProcess::find(pid_t tid) const {
  auto found = std::ranges::lower_bound(threads_, tid, {}, &SeizedThread::tid);
  return found == threads_.end() || found->tid != tid ? nullptr : &*found;
}

Result<user_regs_struct> SeizedProcess::registers(pid_t tid) const {
  const SeizedThread* thread = find(tid);
  if (thread && thread->set_aside) return *thread->set_aside;
  return get_registers(tid);
}

Status SeizedProcess::set_registers(pid_t tid, const user_regs_struct& registers) {
  if (SeizedThread* thread = find(tid); thread && thread->set_aside) {
    thread->set_aside = registers;
    return {};
  }
  return process::set_registers(tid, registers);
}

// A thread that execs waits in the kernel for the process's other threads to be gone, and traced ones are
// gone only when their tracer has reaped them. But the tracer may itself wait, in PTRACE_SEIZE, for that exec
// to be over. Any thread of ours can reap, so the one that waits for the tracer does. First threads are left
// to their parent.
static void reap_dead_threads(pid_t pid) {
  for (pid_t tid : thread_ids(pid)) {
    constexpr int kHow = WEXITED | WNOHANG | __WALL;
    siginfo_t info{};
    // Only a look, far cheaper than at its state in /proc: a stop is told as well, and is for the tracer to
    // take.
    if (tid == pid || ::waitid(P_PID, id_t(tid), &info, kHow | WNOWAIT) != 0 || info.si_pid == 0) continue;
    if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
      ::waitid(P_PID, id_t(tid), &info, kHow);
  }
}

Status with_seized(pid_t pid, const SeizeOptions& options,
                   const std::function<Status(SeizedProcess&)>& work) {
  Deadline give_up = std::chrono::steady_clock::now() + options.patience;
  const Deadline give_up_starved = give_up + 4 * options.patience;
  for (auto pause = std::chrono::milliseconds(5);;
       pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
    const Deadline deadline = std::min(std::chrono::steady_clock::now() + options.hold, give_up);
    bool try_again = false;
    std::packaged_task<Status()> task([&]() -> Status {
      SeizeAttempt attempt(pid, options.hold, deadline);
      Status status = attempt.run(work);
      try_again = attempt.busy();
      if (attempt.starved()) give_up = give_up_starved;
      return status;
    });
    std::future<Status> result = task.get_future();
    // Our own signals are for the other threads: this one must finish what it began in the target.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread tracer(std::move(task));
    // But for the signal that says that a thread has stopped: that is what the tracer waits for.
    sigset_t meanwhile = before;
    ::sigaddset(&meanwhile, SIGCHLD);
    ::pthread_sigmask(SIG_SETMASK, &meanwhile, nullptr);
    while (result.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready)
      reap_dead_threads(pid);
    tracer.join();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!try_again || std::chrono::steady_clock::now() + pause >= give_up) return result.get();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace uscope::process
