// Little processes for tests to look at and to stop. A Child is killed and reaped by its destructor.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <utility>

namespace uscope::process {

class Child {
 public:
  // Runs body in a forked child; the child says it is ready by returning from `prepare`, which runs first.
  explicit Child(
      const std::function<int()>& body, const std::function<void()>& prepare = [] {}) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ready[0]);
      prepare();
      if (::write(ready[1], "x", 1) != 1) ::_exit(99);
      ::close(ready[1]);
      ::_exit(body());
    }
    ::close(ready[1]);
    char byte;
    if (::read(ready[0], &byte, 1) != 1) std::abort();
    ::close(ready[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  // Waits for the end; the exit code, or 1000 + the signal that killed it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

inline int sleep_forever() {
  for (;;) ::pause();
}

}  // namespace uscope::process
