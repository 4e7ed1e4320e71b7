#include "session/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

namespace uscope::session {

std::vector<std::string> split_command(const std::string& command, bool has_quotes) {
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
    if (has_quotes && c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i];
    } else if (has_quotes && quote == 0 && (c == '\'' || c == '"')) {
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

namespace {

bool is_executable_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// As execvp looks; empty if there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_executable_file(name) ? name : "";
  const char* set = ::getenv("PATH");
  std::string path = set != nullptr ? set : "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
  for (size_t start = 0; start <= path.size();) {
    size_t end = std::min(path.find(':', start), path.size());
    std::string file = path.substr(start, end - start) + "/" + name;
    if (is_executable_file(file)) return file;
    start = end + 1;
  }
  return "";
}

}  // namespace

Result<Child> Child::start(const std::string& command, bool has_quotes) {
  std::vector<std::string> words = split_command(command, has_quotes);
  if (words.empty()) return fail("-c needs a command");
  std::string file = find_program(words[0]);
  if (file.empty())
    return fail("Failed to fork child: Path '" + words[0] + "' does not exist or is not executable");
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
    ::execv(file.c_str(), argv.data());
    int error = errno;
    if (::write(failed_write.get(), &error, sizeof error) < 0) ::_exit(126);
    ::_exit(127);
  }
  Child child;
  child.pid_ = pid;
  child.go_ = std::move(go_write);
  child.failed_ = std::move(failed_read);
  child.end_ = Fd(int(::syscall(SYS_pidfd_open, pid, 0)));
  child.name_ = words[0];
  child.file_ = std::move(file);
  TRY(Leash leash, Leash::put_on(pid, child.end_));
  child.leash_.emplace(std::move(leash));
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      go_(std::move(other.go_)),
      failed_(std::move(other.failed_)),
      end_(std::move(other.end_)),
      leash_(std::move(other.leash_)),
      is_at_entry_(other.is_at_entry_),
      is_left_(other.is_left_),
      name_(std::move(other.name_)),
      file_(std::move(other.file_)),
      status_(other.status_) {}

Child::~Child() {
  if (pid_ >= 0) stop();
}

bool Child::stop() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::seconds(3);
  constexpr int kLookAgainMs = 50;  // where nobody tells of its end
  if (ended()) return true;
  if (is_left_) return false;
  // Of what is held nothing has run. It may have been told to ignore the milder signal.
  ::kill(pid_, leash_ ? SIGKILL : SIGTERM);
  ::kill(pid_, SIGCONT);
  for (const auto give_up = Clock::now() + kPatience; !ended();) {
    if (Clock::now() >= give_up) return is_left_ = true, false;
    pollfd source{end_.get(), POLLIN, 0};
    ::poll(&source, 1, kLookAgainMs);
  }
  return true;
}

Status Child::release() {
  if (is_at_entry_)
    ::kill(pid_, SIGCONT);
  else
    TRY_STATUS(execute());
  leash_.reset();
  return {};
}

Status Child::execute() {
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
