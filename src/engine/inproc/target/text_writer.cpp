#include "engine/inproc/target/text_writer.h"

#include <algorithm>

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSpan = 16 * kPage;

}  // namespace

// No page without a patch is between them: what is written becomes the process's own copy.
size_t TextWriter::group_end(std::span<const Patch> patches, size_t first) const {
  size_t end = first + 1;
  auto page_of = [](ProcessAddr address) { return address.value / kPage; };
  while (end < patches.size() && patches[end].end() - patches[first].address <= kSpan &&
         page_of(patches[end].address) <= page_of({patches[end - 1].end().value - 1}) + 1)
    ++end;
  return end;
}

void TextWriter::read(std::span<const Patch> patches, const std::function<void(size_t, Bytes)>& visit) {
  for (size_t first = 0; first < patches.size();) {
    const size_t end = group_end(patches, first);
    const ProcessAddr start = patches[first].address;
    uint64_t size = 0;
    for (size_t i = first; i < end; ++i) size = std::max(size, patches[i].end() - start);
    buffer_.resize(size);
    const size_t got = memory_.read_some(start, buffer_);
    for (size_t i = first; i < end; ++i) {
      auto now = slice(Bytes(buffer_).first(got), patches[i].address - start, patches[i].size);
      visit(i, now.value_or(Bytes()));
    }
    first = end;
  }
}

std::vector<size_t> TextWriter::write(std::span<const Patch> patches,
                                      const std::function<Bytes(size_t)>& bytes_of) {
  std::vector<size_t> failed;
  for (size_t first = 0; first < patches.size();) {
    const size_t end = group_end(patches, first);
    const ProcessAddr start = patches[first].address;
    auto write_alone = [&](size_t i) {
      const Bytes bytes = bytes_of(i);
      if (!bytes.empty() && !memory_.write(patches[i].address, bytes)) failed.push_back(i);
    };
    buffer_.resize(patches[end - 1].end() - start);
    if (end - first == 1 || memory_.read_some(start, buffer_) != buffer_.size()) {
      for (size_t i = first; i < end; ++i) write_alone(i);
    } else {
      bool has_any = false;
      for (size_t i = first; i < end; ++i) {
        const Bytes bytes = bytes_of(i);
        std::ranges::copy(bytes, buffer_.begin() + ptrdiff_t(patches[i].address - start));
        has_any |= !bytes.empty();
      }
      if (has_any && !memory_.write(start, buffer_))
        for (size_t i = first; i < end; ++i) write_alone(i);
    }
    first = end;
  }
  return failed;
}

}  // namespace uscope::engine::inproc
