#include "session/shell_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

extern char** environ;

namespace uscope::session {
namespace {

// What a new process is started with; freed with it.
class SpawnPlan {
 public:
  explicit SpawnPlan(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> start(const std::string& command) {
    std::string shell = "sh", flag = "-c", text = command;
    char* arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
    pid_t pid = -1;
    int reason = ::posix_spawn(&pid, "/bin/sh", &actions_, &attributes_, arguments, environ);
    if (reason != 0) return fail(Error::from_errno("starting /bin/sh for system()", reason));
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<std::string> output_of_shell(const std::string& command, const std::function<bool()>& wants_end) {
  constexpr int kLookAgainMs = 50;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Error::from_errno("making a pipe for system()", errno));
  Fd from(ends[0]), to(ends[1]);
  TRY(pid_t pid, SpawnPlan(to.get()).start(command));
  to.reset();
  std::string text;
  char chunk[4096];
  bool has_ended = false;
  for (;;) {
    // All that the shell itself has written is there by then.
    if (!has_ended && wants_end()) has_ended = ::waitpid(pid, nullptr, WNOHANG) == pid;
    pollfd source{from.get(), POLLIN, 0};
    const bool is_there = ::poll(&source, 1, has_ended ? 0 : kLookAgainMs) != 0;
    ssize_t got = is_there ? ::read(from.get(), chunk, sizeof chunk) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || (got == 0 && is_there)) break;
    text.append(chunk, size_t(got));
    if (has_ended && size_t(got) < sizeof chunk) break;
  }
  while (!has_ended && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

}  // namespace uscope::session
