#include "engine/inproc/runtime/ring_reader.h"

#include <x86intrin.h>

#include <algorithm>
#include <cstring>

namespace uscope::engine::inproc {
namespace {

// In ticks: what a store takes to be seen by another processor, with room to spare.
constexpr uint64_t kVisible = 20'000;
// A thread that was stopped while making a record holds the others up no longer than this.
constexpr uint64_t kPatience = 50'000'000;

}  // namespace

RingReader::RingReader(const SharedPlan& plan, uint32_t ring, std::span<uint8_t> shared)
    : info_(plan.maps[ring]),
      shared_(shared),
      live_(reinterpret_cast<MapLive*>(shared.data() + info_.live)),
      headers_(reinterpret_cast<ChunkHeader*>(shared.data() + info_.buckets)),
      seen_(info_.element_count) {}

uint64_t RingReader::collect(uint64_t now) {
  const auto* header = reinterpret_cast<const SharedHeader*>(shared_.data());
  const uint32_t used =
      std::min(__atomic_load_n(&header->chunks_used, __ATOMIC_ACQUIRE), info_.element_count);
  uint64_t horizon = now;
  cursors_.clear();
  for (uint32_t i = 0; i < used; i++) {
    const uint32_t state = __atomic_load_n(&headers_[i].state, __ATOMIC_ACQUIRE);
    if (state != kChunkActive && state != kChunkFull) continue;
    // In this order: a record that is not pending now is committed, or is from later than now.
    const uint64_t pending = __atomic_load_n(&headers_[i].pending, __ATOMIC_ACQUIRE);
    const uint32_t committed = __atomic_load_n(&headers_[i].committed, __ATOMIC_ACQUIRE);
    Seen& seen = seen_[i];
    if (pending == 0) {
      seen.pending_since = 0;
    } else {
      if (seen.pending_since == 0 || seen.committed != committed) {
        seen.pending_since = last_pass_;
        seen.committed = committed;
      }
      if (now - seen.pending_since < kPatience) horizon = std::min(horizon, seen.pending_since);
    }
    Cursor cursor{i, seen.consumed, committed, 0};
    if (settle(cursor))
      cursors_.push_back(cursor);
    else
      finish(cursor);
  }
  return horizon > kVisible ? horizon - kVisible : 0;
}

bool RingReader::settle(Cursor& cursor) {
  const uint8_t* chunk = shared_.data() + info_.elements + uint64_t(cursor.chunk) * kChunkBytes;
  if (cursor.at >= cursor.end && cursor.end <= kChunkBytes) return false;
  if (cursor.end <= kChunkBytes && cursor.end - cursor.at >= sizeof(RecordHeader)) {
    RecordHeader head;
    std::memcpy(&head, chunk + cursor.at, sizeof head);
    if (head.size <= cursor.end - cursor.at - sizeof head) {
      cursor.time = head.time;
      return true;
    }
  }
  spoiled_++;
  cursor.at = cursor.end = kChunkBytes;
  return false;
}

void RingReader::hand_over(Cursor& cursor, const std::function<void(Bytes)>& on_record) {
  const uint8_t* from = shared_.data() + info_.elements + uint64_t(cursor.chunk) * kChunkBytes + cursor.at;
  RecordHeader head;
  std::memcpy(&head, from, sizeof head);
  // A copy: what is decoded must not change while it is.
  const uint32_t size = std::min<uint32_t>(head.size, cursor.end - cursor.at - sizeof head);
  record_.resize(size);
  std::memcpy(record_.data(), from + sizeof head, size);
  cursor.at = std::min<uint32_t>(cursor.at + sizeof head + (size + 7) / 8 * 8, cursor.end);
  on_record(record_);
}

void RingReader::finish(const Cursor& cursor) {
  seen_[cursor.chunk].consumed = cursor.at;
  // Full is said after the last record was committed.
  if (__atomic_load_n(&headers_[cursor.chunk].state, __ATOMIC_ACQUIRE) == kChunkFull &&
      cursor.at >= __atomic_load_n(&headers_[cursor.chunk].committed, __ATOMIC_ACQUIRE))
    give_back(cursor.chunk);
}

void RingReader::give_back(uint32_t chunk) {
  seen_[chunk] = {};
  __atomic_store_n(&headers_[chunk].state, uint32_t(kChunkFree), __ATOMIC_RELEASE);
  uint64_t head = __atomic_load_n(&live_->free_list, __ATOMIC_ACQUIRE);
  uint64_t want;
  do {
    __atomic_store_n(&headers_[chunk].next_free, uint32_t(head), __ATOMIC_RELAXED);
    want = ((head >> 32) + 1) << 32 | (chunk + 1);
  } while (!__atomic_compare_exchange_n(&live_->free_list, &head, want, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
}

size_t RingReader::read(const std::function<void(Bytes)>& on_record, bool all) {
  const uint64_t now = __rdtsc();
  uint64_t horizon = collect(now);
  if (all) horizon = UINT64_MAX;
  last_pass_ = now;
  size_t count = 0;
  auto later = [](const Cursor& a, const Cursor& b) { return a.time > b.time; };
  std::ranges::make_heap(cursors_, later);
  while (!cursors_.empty()) {
    std::ranges::pop_heap(cursors_, later);
    Cursor cursor = cursors_.back();
    cursors_.pop_back();
    // As long as this chunk has the earliest.
    const uint64_t until = cursors_.empty() ? horizon : std::min(horizon, cursors_.front().time);
    bool more = true;
    while (more && cursor.time <= until) {
      hand_over(cursor, on_record);
      count++;
      more = settle(cursor);
    }
    if (more && cursor.time <= horizon) {
      cursors_.push_back(cursor);
      std::ranges::push_heap(cursors_, later);
    } else {
      finish(cursor);
    }
  }
  return count;
}

}  // namespace uscope::engine::inproc
