#include "cli/sink.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace uscope::cli {
namespace {

constexpr size_t kFullBuffer = 64 << 10;
// As much as fits into a pipe that says that it has room.
constexpr size_t kPiece = PIPE_BUF;
// A reader that is only slow does not lose the end.
constexpr int kLastMomentMs = 300;

bool is_regular_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

Fd source_of_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  return Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

}  // namespace

Sink::Sink(int fd, Buffering buffering)
    : fd_(fd), buffering_(buffering), is_file_(is_regular_file(fd)), signals_(source_of_signals()) {}

void Sink::write(std::string_view text) {
  if (is_over_) return;
  kept_ += text;
  if (buffering_ == Buffering::None || kept_.size() >= kFullBuffer) flush();
}

void Sink::end_batch() {
  if (buffering_ == Buffering::Line) flush();
}

void Sink::flush() { push(false); }

void Sink::finish() {
  push(true);
  waits_ = true;
}

// False: not yet, and it is not to be waited for.
bool Sink::has_room(bool is_last) {
  pollfd sources[] = {{fd_, POLLOUT, 0}, {signals_.get(), POLLIN, 0}};
  if (is_file_ || ::poll(sources, 1, 0) > 0) return true;
  if (!waits_ && !is_last) return false;
  while (::poll(sources, 2, -1) < 0 && errno == EINTR) {
  }
  if (sources[0].revents != 0) return true;
  if (is_last) return ::poll(sources, 1, kLastMomentMs) > 0;
  return waits_ = false;
}

void Sink::push(bool is_last) {
  std::string_view rest = kept_;
  while (!rest.empty() && !is_over_ && has_room(is_last)) {
    const ssize_t written = ::write(fd_, rest.data(), is_file_ ? rest.size() : std::min(rest.size(), kPiece));
    if (written >= 0) {
      rest.remove_prefix(size_t(written));
    } else if (errno == EAGAIN) {
      ::usleep(1000);
    } else if (errno != EINTR) {
      is_over_ = true;
      if (errno != EPIPE) trouble_ = Error::from_errno("writing the output", errno);
    }
  }
  if (is_last && !rest.empty() && !is_over_) {
    is_over_ = true;
    trouble_ = Error("nobody reads the output: the last " + std::to_string(rest.size()) + " bytes are lost");
  }
  kept_.erase(0, is_over_ ? kept_.size() : kept_.size() - rest.size());
}

}  // namespace uscope::cli
