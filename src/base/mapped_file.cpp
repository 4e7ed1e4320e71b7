#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace uscope {

Result<MappedFile> MappedFile::open(const std::string& path) {
  TRY(Fd fd, open_for_reading(path));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return fail(Error::from_errno("examining " + path, errno));
  if (S_ISDIR(info.st_mode)) return fail(path + " is a directory, not a file");
  if (!S_ISREG(info.st_mode)) return fail(path + " is not a regular file");
  MappedFile file;
  file.path_ = path;
  file.device_ = info.st_dev;
  file.inode_ = info.st_ino;
  if (info.st_size > 0) {
    // Shared, though nothing is written: into private mappings of a file the kernel puts the breakpoints of
    // its uprobes, into a reader's too, and the reader would take them for the file's bytes.
    void* data = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return fail(Error::from_errno("mapping " + path, errno));
    file.bytes_ = {static_cast<const uint8_t*>(data), size_t(info.st_size)};
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace uscope
