#include "session/leash.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace uscope::session {
namespace {

constexpr int kLine = 0, kProcess = 1;

[[noreturn]] void watch(pid_t pid, int line, int process) {
  // What ends or stops uscope in its terminal must not reach us.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // Out of the way of each other, and then to where all others can be closed.
  line = ::fcntl(line, F_DUPFD, kProcess + 1);
  process = process >= 0 ? ::fcntl(process, F_DUPFD, kProcess + 1) : -1;
  ::dup2(line, kLine);
  if (process < 0 || ::dup2(process, kProcess) < 0) ::close(kProcess);
  if (::syscall(SYS_close_range, kProcess + 1, ~0u, 0) != 0)
    for (int fd = kProcess + 1; fd < 4096; ++fd) ::close(fd);
  char byte;
  if (::read(kLine, &byte, 1) == 0) {
    if (process < 0)
      ::kill(pid, SIGKILL);
    else
      ::syscall(SYS_pidfd_send_signal, kProcess, SIGKILL, nullptr, 0);
  }
  ::_exit(0);
}

}  // namespace

Result<Leash> Leash::put_on(pid_t pid, const Fd& process) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Error::from_errno("watching over the command", errno));
  Fd from(ends[0]), to(ends[1]);
  const pid_t watcher = ::fork();
  if (watcher < 0) return fail(Error::from_errno("watching over the command", errno));
  if (watcher == 0) watch(pid, from.get(), process.get());
  return Leash(watcher, std::move(to));
}

Leash::Leash(Leash&& other) noexcept
    : watcher_(std::exchange(other.watcher_, -1)), line_(std::move(other.line_)) {}

Leash::~Leash() {
  if (watcher_ < 0) return;
  // Where this fails the watcher has gone, which is what it is for.
  [[maybe_unused]] const ssize_t written = ::write(line_.get(), "g", 1);
  while (::waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace uscope::session
