#include "engine/inproc/target/text_writer.h"

#include <algorithm>

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostRead = 16 * kPage, kMostWritten = kPage;

// The patches from `first` on, none of them further than `most` bytes. No page without a patch is between
// them, which might not be mapped, and would become a copy of the process's own when it is written.
size_t group_end(std::span<const Patch> patches, size_t first, uint64_t most) {
  size_t end = first + 1;
  auto page_of = [](ProcessAddr address) { return address.value / kPage; };
  while (end < patches.size() && patches[end].end() - patches[first].address <= most &&
         page_of(patches[end].address) <= page_of({patches[end - 1].end().value - 1}) + 1)
    ++end;
  return end;
}

// Whether two stretches of code that begin with the first of the patches differ outside of all of these.
bool differ_between(std::span<const Patch> patches, Bytes one, Bytes other) {
  const ProcessAddr start = patches.front().address;
  uint64_t at = 0;
  for (const Patch& patch : patches) {
    const uint64_t begin = patch.address - start;
    if (begin > at && !std::ranges::equal(one.subspan(at, begin - at), other.subspan(at, begin - at)))
      return true;
    at = std::max(at, patch.end() - start);
  }
  return false;
}

}  // namespace

void TextWriter::read(std::span<const Patch> patches, const std::function<void(size_t, Bytes)>& visit) {
  for (size_t first = 0; first < patches.size();) {
    const size_t end = group_end(patches, first, kMostRead);
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

// A breakpoint that is to be there, and is, may be another tracer's: it stays or goes without us.
bool TextWriter::write_one(const Patch& patch, Bytes bytes) {
  if (bytes.empty()) return true;
  const bool is_kept = bytes[0] == breakpoint && memory_.read_value<uint8_t>(patch.address) == breakpoint;
  return memory_.write(patch.address + (is_kept ? 1 : 0), bytes.subspan(is_kept ? 1 : 0)).has_value();
}

bool TextWriter::write_together(std::span<const Patch> patches, const std::vector<Bytes>& all) {
  if (std::ranges::any_of(all, [](Bytes bytes) { return !bytes.empty() && bytes[0] == breakpoint; }))
    return false;
  const ProcessAddr start = patches.front().address;
  buffer_.resize(patches.back().end() - start);
  stored_bytes_.resize(buffer_.size());
  if (memory_.read_some(start, buffer_) != buffer_.size() || !stored_.read(start, stored_bytes_))
    return false;
  if (differ_between(patches, buffer_, stored_bytes_)) return false;
  for (size_t i = 0; i < patches.size(); ++i)
    std::ranges::copy(all[i], buffer_.begin() + ptrdiff_t(patches[i].address - start));
  return memory_.write(start, buffer_).has_value();
}

// The kernel sets and takes out other tracers' breakpoints while the process is stopped, too. Only where
// there are none between the patches, what is there may be written along with them.
std::vector<size_t> TextWriter::write(std::span<const Patch> patches,
                                      const std::function<Bytes(size_t)>& bytes_of) {
  std::vector<size_t> failed;
  for (size_t first = 0; first < patches.size();) {
    const size_t end = group_end(patches, first, kMostWritten);
    std::vector<Bytes> all;
    for (size_t i = first; i < end; ++i) all.push_back(bytes_of(i));
    const auto to_write = std::ranges::count_if(all, [](Bytes bytes) { return !bytes.empty(); });
    if (to_write < 2 || !write_together(patches.subspan(first, end - first), all))
      for (size_t i = first; i < end; ++i)
        if (!write_one(patches[i], all[i - first])) failed.push_back(i);
    first = end;
  }
  return failed;
}

}  // namespace uscope::engine::inproc
