#include "engine/inproc/target/ended_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>

#include "engine/inproc/runtime/layout.h"
#include "process/ptrace.h"

namespace uscope::engine::inproc {
namespace {

using Clock = std::chrono::steady_clock;
using process::RemoteMemory;

// Nothing depends on this stop: whoever is not to be stopped now will be later.
constexpr process::SeizeOptions kSoon{std::chrono::milliseconds(50), std::chrono::milliseconds(200)};

Bytes bytes_of(const auto& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof values[0]};
}

class ThreadTable {
 public:
  ThreadTable(RemoteMemory& memory, ProcessAddr private_memory)
      : memory_(memory), private_(private_memory), entries_(size_t(1) << kThreadEntryBits) {}

  Status read() {
    return memory_.read(private_ + kThreadsOffset,
                        {reinterpret_cast<uint8_t*>(entries_.data()), entries_.size() * sizeof(ThreadEntry)});
  }
  // Hints may lead to slots that are nobody's now, whose next thread may have the last one's tag.
  Status write() {
    const std::vector<uint8_t> no_hints(kHintsBytes, 0);
    TRY_STATUS(memory_.write(private_ + kThreadsOffset, bytes_of(entries_)));
    return memory_.write(private_ + kHintsOffset, no_hints);
  }

  // Takes the entries of threads that have not one of `tags`, and says which of `numbers` nobody has now.
  std::vector<uint32_t> take_from_others(const std::unordered_set<uint64_t>& tags,
                                         const std::vector<uint32_t>& numbers);
  // Entries that no search for a thread passes can end searches again. Not while one is on its way.
  void forget_ended();

 private:
  std::optional<uint32_t> number_of(const ThreadEntry& entry) const {
    const uint64_t offset = entry.slot - (private_ + kFirstSlotHeader).value;
    if (entry.slot == 0 || offset % kSlotStride != 0 || offset >> kSlotShift >= kMostThreads)
      return std::nullopt;
    return uint32_t(offset >> kSlotShift);
  }
  bool is_in_use(uint32_t number) const {
    auto busy = memory_.read_value<uint64_t>(private_ + kFirstSlotHeader + (uint64_t(number) << kSlotShift) +
                                             offsetof(Slot, busy));
    return !busy || *busy != 0;
  }

  RemoteMemory& memory_;
  ProcessAddr private_;
  std::vector<ThreadEntry> entries_;
};

std::vector<uint32_t> ThreadTable::take_from_others(const std::unordered_set<uint64_t>& tags,
                                                    const std::vector<uint32_t>& numbers) {
  std::vector<bool> is_taken(kMostThreads, false);
  for (ThreadEntry& entry : entries_) {
    if (entry.tag == 0 || entry.tag == kEndedThread) continue;
    const auto number = number_of(entry);
    const bool stays = tags.contains(entry.tag) ||
                       (number && (!std::ranges::binary_search(numbers, *number) || is_in_use(*number)));
    if (!stays)
      entry = {kEndedThread, 0};
    else if (number)
      is_taken[*number] = true;
  }
  std::vector<uint32_t> ended;
  for (uint32_t number : numbers)
    if (number < kMostThreads && !is_taken[number]) ended.push_back(number);
  return ended;
}

void ThreadTable::forget_ended() {
  const size_t mask = entries_.size() - 1;
  std::vector<bool> is_passed(entries_.size(), false);
  for (size_t i = 0; i < entries_.size(); i++) {
    if (entries_[i].tag == 0 || entries_[i].tag == kEndedThread) continue;
    for (size_t at = thread_entry_of(entries_[i].tag); at != i; at = (at + 1) & mask) is_passed[at] = true;
  }
  for (size_t i = 0; i < entries_.size(); i++)
    if (entries_[i].tag == kEndedThread && !is_passed[i]) entries_[i].tag = 0;
}

Status check_is_traced(RemoteMemory& memory, const EndedThreadsRequest& request) {
  auto alive = memory.read_value<uint64_t>(request.private_memory + offsetof(PrivateHeader, alive));
  auto shared = memory.read_value<uint64_t>(request.private_memory + offsetof(PrivateHeader, shared));
  if (!alive || !shared || *alive != kAlive || *shared != request.shared.value)
    return fail(fmt::format("process {} is not traced", request.pid));
  return {};
}

// As a thread finds it that was never there, but for what is at the slot's far end.
Status reset_slots(RemoteMemory& memory, const EndedThreadsRequest& request,
                   const std::vector<uint32_t>& numbers) {
  Slot empty{};
  empty.had_another_thread = 1;
  for (uint32_t number : numbers)
    TRY_STATUS(memory.write(request.private_memory + kFirstSlotHeader + (uint64_t(number) << kSlotShift),
                            {reinterpret_cast<const uint8_t*>(&empty), sizeof empty}));
  return {};
}

}  // namespace

Result<EndedThreads> take_from_ended(const EndedThreadsRequest& request,
                                     const std::vector<AddressSpan>& code) {
  EndedThreads ended;
  std::optional<RemoteMemory> memory;  // of the image that was stopped, whatever is executed later
  Status looked = process::with_seized(request.pid, kSoon, [&](process::SeizedProcess& process) -> Status {
    const Clock::time_point began = Clock::now();
    TRY(memory, RemoteMemory::open(request.pid));
    TRY_STATUS(check_is_traced(*memory, request));
    std::unordered_set<uint64_t> tags;
    bool is_searching = false;
    for (const process::SeizedThread& thread : process.threads()) {
      TRY(user_regs_struct registers, process.registers(thread.tid));
      tags.insert(registers.fs_base + 1);
      is_searching |=
          std::ranges::any_of(code, [&](const AddressSpan& span) { return span.contains({registers.rip}); });
    }
    ThreadTable table(*memory, request.private_memory);
    TRY_STATUS(table.read());
    ended.numbers = table.take_from_others(tags, request.numbers);
    if (!is_searching) table.forget_ended();
    TRY_STATUS(table.write());
    ended.stopped_ns = uint64_t((Clock::now() - began).count());
    return {};
  });
  TRY_STATUS(std::move(looked));
  // Nobody can come to these slots any more; there is time.
  TRY_STATUS(reset_slots(*memory, request, ended.numbers));
  return ended;
}

}  // namespace uscope::engine::inproc
