#include "engine/inproc/target/witness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

// Both must have touched the page. If it does not show then, it never will.
Witness::Witness(const Fd& file, const Journal& journal, const process::RemoteMemory& target) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return;
  void* here = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file.get(), info.st_size - off_t(kPage));
  if (here == MAP_FAILED) return;
  page_ = static_cast<const volatile uint8_t*>(here);
  if (!target.read_value<uint8_t>(journal.last_page())) return;
  (void)*page_;
  is_reliable_ = look() == Sight::Shared;
}

Witness::Witness(Witness&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)), is_reliable_(other.is_reliable_) {}

Witness& Witness::operator=(Witness&& other) noexcept {
  std::swap(page_, other.page_);
  std::swap(is_reliable_, other.is_reliable_);
  return *this;
}

Witness::~Witness() {
  if (page_ != nullptr) ::munmap(const_cast<uint8_t*>(page_), kPage);
}

// When memory is short the kernel may take the page from all that have it: then we do not have it either.
Witness::Sight Witness::look() const {
  constexpr uint64_t kPresent = uint64_t(1) << 63, kMappedOnce = uint64_t(1) << 56;
  const Fd pages(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  uint64_t entry = 0;
  const auto at = off_t(reinterpret_cast<uintptr_t>(page_) / kPage * sizeof entry);
  if (!pages.is_open() || ::pread(pages.get(), &entry, sizeof entry, at) != sizeof entry)
    return Sight::Unknown;
  if ((entry & kPresent) == 0) return Sight::Unknown;
  return (entry & kMappedOnce) != 0 ? Sight::Alone : Sight::Shared;
}

}  // namespace uscope::engine::inproc
