// A file's bytes, mapped read-only for as long as the object lives. Only regular files can be mapped;
// anything else is an Error. A file that shrinks while it is mapped raises SIGBUS on access: main installs a
// handler that says so.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace uscope {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  Bytes bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // The file's identity, the same for every path that leads to it.
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }

 private:
  MappedFile() = default;
  std::string path_;
  Bytes bytes_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace uscope
