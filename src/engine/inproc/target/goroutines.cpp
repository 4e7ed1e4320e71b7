#include "engine/inproc/target/goroutines.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace uscope::engine::inproc {
namespace {

// runtime.g: two words of stack bounds, two of guards, panic, defer and m; then where it is scheduled from.
// The same from Go 1.14 to 1.26.
constexpr uint64_t kScheduledSp = 56;
constexpr uint64_t kScheduledPc = 64;
constexpr uint64_t kHeadOfG = 72;

constexpr uint64_t kMostGoroutines = uint64_t(4) << 20;
constexpr uint64_t kChunk = uint64_t(64) << 10;
// asyncPreempt's frame with all its registers, and asyncPreempt2's below it.
constexpr uint64_t kFrames = 1024;

}  // namespace

std::vector<ProcessAddr> Goroutines::parked_stacks() const {
  std::vector<ProcessAddr> stacks;
  struct Slice {
    uint64_t data, length, capacity;
  };
  auto slice_now = memory_.read_value<Slice>(runtime_.all_goroutines);
  if (!slice_now || slice_now->length > kMostGoroutines) return stacks;
  std::vector<uint64_t> goroutines(slice_now->length);
  auto raw = std::span(reinterpret_cast<uint8_t*>(goroutines.data()), goroutines.size() * 8);
  goroutines.resize(memory_.read_some({slice_now->data}, raw) / 8);
  std::ranges::sort(goroutines);
  // They lie side by side in the heap: many in one read.
  std::vector<uint8_t> chunk;
  uint64_t chunk_at = 0;
  for (uint64_t g : goroutines) {
    if (chunk.size() < kHeadOfG || g < chunk_at || g - chunk_at > chunk.size() - kHeadOfG) {
      chunk_at = g;
      chunk.resize(kChunk);
      chunk.resize(memory_.read_some({g}, chunk));
      if (chunk.size() < kHeadOfG) continue;
    }
    uint64_t sp, pc;
    std::memcpy(&sp, &chunk[g - chunk_at + kScheduledSp], 8);
    std::memcpy(&pc, &chunk[g - chunk_at + kScheduledPc], 8);
    if (runtime_.preempt2.contains({pc})) stacks.push_back({sp});
  }
  return stacks;
}

void Goroutines::visit(const std::vector<ProcessAddr>& thread_stacks,
                       const std::function<void(ProcessAddr, ProcessAddr)>& found) {
  std::vector<ProcessAddr> stacks = parked_stacks();
  stacks.insert(stacks.end(), thread_stacks.begin(), thread_stacks.end());
  std::array<uint64_t, 2 * kFrames / 8> words;
  for (ProcessAddr stack : stacks) {
    const ProcessAddr from{stack.value & ~uint64_t(7)};
    auto raw = std::span(reinterpret_cast<uint8_t*>(words.data()), sizeof words);
    const size_t count = memory_.read_some(from, raw) / 8;
    for (size_t i = 0; i < count; ++i) found(from + 8 * i, {words[i]});
  }
}

}  // namespace uscope::engine::inproc
