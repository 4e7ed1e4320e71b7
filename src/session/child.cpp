#include "session/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace uscope::session {

std::vector<std::string> split_command(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    char c = command[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
      continue;
    }
    in_word = true;
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i];
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      word += c;
    }
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

Result<Child> Child::start(const std::string& command) {
  std::vector<std::string> words = split_command(command);
  if (words.empty()) return fail("-c needs a command");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int go[2], failed[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return fail(Error::from_errno("starting " + words[0], errno));
  Fd go_read(go[0]), go_write(go[1]);
  if (::pipe2(failed, O_CLOEXEC) != 0) return fail(Error::from_errno("starting " + words[0], errno));
  Fd failed_read(failed[0]), failed_write(failed[1]);
  pid_t pid = ::fork();
  if (pid < 0) return fail(Error::from_errno("starting " + words[0], errno));
  if (pid == 0) {
    // Signals that the session blocks must reach the command.
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    char byte;
    ::close(go_write.get());
    if (::read(go_read.get(), &byte, 1) != 1) ::_exit(127);
    ::execvp(argv[0], argv.data());
    int error = errno;
    if (::write(failed_write.get(), &error, sizeof error) < 0) ::_exit(126);
    ::_exit(127);
  }
  Child child;
  child.pid_ = pid;
  child.go_ = std::move(go_write);
  child.failed_ = std::move(failed_read);
  child.name_ = words[0];
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      go_(std::move(other.go_)),
      failed_(std::move(other.failed_)),
      name_(std::move(other.name_)),
      status_(other.status_) {}

Child::~Child() {
  if (pid_ < 0 || status_) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

Status Child::release() {
  if (::write(go_.get(), "g", 1) != 1) return fail(Error::from_errno("starting " + name_, errno));
  go_.reset();
  int error = 0;
  // The pipe closes by itself when the command has begun.
  if (::read(failed_.get(), &error, sizeof error) == sizeof error)
    return fail(Error::from_errno("running " + name_, error));
  return {};
}

std::optional<int> Child::ended() {
  if (!status_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return status_;
}

}  // namespace uscope::session
