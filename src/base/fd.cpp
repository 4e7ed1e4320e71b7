#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace uscope {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<Fd> open_for_reading(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that somebody named as a binary must not hang.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(Error::from_errno("opening " + path, errno));
  return Fd(fd);
}

Result<std::string> read_text_file(const std::string& path, size_t limit) {
  TRY(Fd fd, open_for_reading(path));
  std::string text;
  char chunk[16384];
  for (;;) {
    ssize_t got = ::read(fd.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Error::from_errno("reading " + path, errno));
    if (got == 0) return text;
    if (text.size() + size_t(got) > limit)
      return fail("reading " + path + ": the file is larger than uscope reads");
    text.append(chunk, size_t(got));
  }
}

}  // namespace uscope
