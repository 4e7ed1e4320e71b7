#include "engine/inproc/target/stored_text.h"

#include <fcntl.h>
#include <unistd.h>

namespace uscope::engine::inproc {

bool StoredText::open_around(ProcessAddr address) {
  if (mapping_ != nullptr && mapping_->contains(address)) return file_.is_open();
  if (!maps_) {
    auto maps = process::Maps::of(pid_);
    if (!maps) return false;
    maps_ = std::move(*maps);
  }
  file_ = Fd();
  mapping_ = maps_->find(address);
  if (mapping_ == nullptr || mapping_->kind != process::MappingKind::File) return false;
  if (auto path = process::path_to_mapped_file(pid_, *mapping_))
    file_ = Fd(::open(path->c_str(), O_RDONLY | O_CLOEXEC));
  return file_.is_open();
}

bool StoredText::read(ProcessAddr start, std::span<uint8_t> out) {
  if (!open_around(start) || start + out.size() > mapping_->end) return false;
  const auto offset = off_t(mapping_->file_offset(start).value);
  return ::pread(file_.get(), out.data(), out.size(), offset) == ssize_t(out.size());
}

}  // namespace uscope::engine::inproc
