// An owned file descriptor: closed by its destructor, movable, never copied. Raw fds do not cross a folder.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace uscope {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// Opens for reading, close-on-exec. The error names the path.
Result<Fd> open_for_reading(const std::string& path);

// Reads to the end of a file whose size is not known beforehand (/proc, pipes). Refuses more than `limit`
// bytes.
Result<std::string> read_text_file(const std::string& path, size_t limit = size_t(64) << 20);

}  // namespace uscope
