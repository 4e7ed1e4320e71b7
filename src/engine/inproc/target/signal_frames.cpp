#include "engine/inproc/target/signal_frames.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace uscope::engine::inproc {
namespace {

// struct rt_sigframe of arch/x86: the restorer's address, then a ucontext whose registers begin 40 bytes in.
constexpr uint64_t kSavedRsp = 8 + 40 + 15 * 8;
constexpr uint64_t kSavedRip = kSavedRsp + 8;
constexpr uint64_t kSavedSegments = kSavedRip + 16;
constexpr uint64_t kFrameEnd = kSavedSegments + 8;
// The stack that the thread had for its signals, from the same ucontext.
constexpr uint64_t kSignalStack = 8 + 16;
// cs 0x33 and ss 0x2b with gs and fs zero: what the kernel writes for every 64-bit thread (ss since 4.6).
constexpr uint64_t kSegments = 0x002b000000000033;
constexpr uint64_t kSegmentsWithoutSs = 0x33;

// How much a handler's own frames take at most; less where stacks are pieces of a heap, as in Go, whose
// handlers run on 32 KB.
constexpr uint64_t kFarthest = uint64_t(1) << 20;
constexpr uint64_t kFarthestInHeap = uint64_t(64) << 10;
constexpr uint64_t kLargestStack = uint64_t(64) << 20;
constexpr size_t kMostStacks = 32;

// mov $15, %rax or %eax; syscall: glibc's, musl's and Go's restorers.
constexpr std::array<uint8_t, 9> kRestorer64 = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
constexpr std::array<uint8_t, 7> kRestorer32 = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

// A frame on a stack for signals is of a handler that runs only if the thread is on that stack now. Others
// are what earlier handlers left there: Go's stacks for signals lie among those of its threads.
bool is_left_over(const uint8_t* frame, ProcessAddr frame_at, ProcessAddr from) {
  struct {
    uint64_t start;
    uint32_t flags, padding;
    uint64_t size;
  } stack;
  std::memcpy(&stack, frame + kSignalStack, sizeof stack);
  auto is_inside = [&](ProcessAddr at) {
    return at.value >= stack.start && at.value - stack.start < stack.size;
  };
  return is_inside(frame_at) && !is_inside(from);
}

uint64_t word_at(const std::vector<uint8_t>& bytes, size_t offset) {
  uint64_t word;
  std::memcpy(&word, &bytes[offset], sizeof word);
  return word;
}

}  // namespace

std::optional<ProcessAddr> saved_stack_pointer(const process::RemoteMemory& memory, ProcessAddr kept_at) {
  auto value = memory.read_value<uint64_t>(kept_at - (kSavedRip - kSavedRsp));
  return value ? std::optional(ProcessAddr{*value}) : std::nullopt;
}

bool SignalFrames::is_restorer(ProcessAddr address) {
  auto [known, is_new] = restorers_.try_emplace(address, false);
  if (!is_new) return known->second;
  const process::Mapping* mapping = maps_.find(address);
  if (mapping == nullptr || !mapping->perms.execute) return false;
  std::array<uint8_t, 16> code{};
  const size_t got = memory_.read_some(address, code);
  auto begins_with = [&](Bytes pattern) {
    return got >= pattern.size() && std::equal(pattern.begin(), pattern.end(), code.begin());
  };
  known->second = begins_with(kRestorer64) || begins_with(kRestorer32);
  return known->second;
}

// A frame tells of another stack only: on its own, the next may lie anywhere above it. What an earlier
// handler left in memory that nobody has written since looks like a frame, and its saved stack pointer leads
// past the real one.
void SignalFrames::visit(ProcessAddr stack_pointer,
                         const std::function<void(ProcessAddr, ProcessAddr)>& found) {
  // A thread that is inside the restorer itself has already taken its address off the stack.
  std::vector<ProcessAddr> starts = {{(stack_pointer.value - 8) & ~uint64_t(7)}};
  std::vector<AddressSpan> seen;
  for (size_t next = 0; next < starts.size() && next < kMostStacks; ++next) {
    const ProcessAddr from = starts[next];
    auto is_seen = [&](const AddressSpan& span) { return span.contains(from); };
    const process::Mapping* stack = maps_.find(from);
    if (stack == nullptr || std::ranges::any_of(seen, is_seen)) continue;
    stack_.resize(std::min(stack->end - from, stack->size() >= kLargestStack ? kFarthestInHeap : kFarthest));
    stack_.resize(memory_.read_some(from, stack_));
    seen.push_back({from, stack_.size()});
    for (size_t at = 0; at + kFrameEnd <= stack_.size(); at += 8) {
      const uint64_t segments = word_at(stack_, at + kSavedSegments);
      if (segments != kSegments && segments != kSegmentsWithoutSs) continue;
      if (!is_restorer({word_at(stack_, at)})) continue;
      if (is_left_over(&stack_[at], from + at, from)) continue;
      const ProcessAddr interrupted{word_at(stack_, at + kSavedRsp) & ~uint64_t(7)};
      const bool same_stack = interrupted >= from && interrupted < from + stack_.size();
      if (same_stack && interrupted <= from + at) continue;  // no real frame points below itself
      found(from + at + kSavedRip, {word_at(stack_, at + kSavedRip)});
      if (!same_stack) starts.push_back(interrupted - 8);
    }
  }
}

}  // namespace uscope::engine::inproc
