// The ring buffer's writing side. Each thread fills a chunk of its own, so that two producers never touch one
// cache line; chunks come from a common pool and go back to it through the reader. The reader puts the
// threads' records in order by their times.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

constexpr int64_t kNoRoom = -11;  // EAGAIN, as the kernel's

ChunkHeader* chunk_header(const MapInfo* ring, uint32_t chunk) {
  return (ChunkHeader*)(shared_of(ring) + ring->buckets) + chunk;
}

// A chunk that the reader gave back, else one never used. kNone when all are waiting to be read.
uint32_t take_chunk(const MapInfo* ring) {
  auto* shared = (SharedHeader*)shared_of(ring);
  MapLive* live = live_of(ring, shared_of(ring));
  uint64_t head = __atomic_load_n(&live->free_list, __ATOMIC_ACQUIRE);
  while (uint32_t(head) - 1 < ring->element_count) {
    const uint32_t next = chunk_header(ring, uint32_t(head) - 1)->next_free;
    const uint64_t want = ((head >> 32) + 1) << 32 | next;
    if (__atomic_compare_exchange_n(&live->free_list, &head, want, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return uint32_t(head) - 1;
  }
  const uint64_t most =
      uint64_t(shared->most_waiting) + __atomic_load_n(&shared->threads_used, __ATOMIC_RELAXED);
  uint32_t fresh = __atomic_load_n(&shared->chunks_used, __ATOMIC_RELAXED);
  while (fresh < ring->element_count && fresh < most)
    if (__atomic_compare_exchange_n(&shared->chunks_used, &fresh, fresh + 1, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return fresh;
  return kNone;
}

bool next_chunk(const MapInfo* ring, Slot* slot) {
  const uint32_t chunk = take_chunk(ring);
  if (chunk == kNone) return false;
  if (slot->chunk) {
    ChunkHeader* old = chunk_header(ring, slot->chunk - 1);
    __atomic_store_n(&old->state, uint32_t(kChunkFull), __ATOMIC_RELEASE);
  }
  ChunkHeader* header = chunk_header(ring, chunk);
  header->owner = slot->index;
  header->committed = 0;
  header->consumed = 0;
  header->pending = 0;
  __atomic_store_n(&header->state, uint32_t(kChunkActive), __ATOMIC_RELEASE);
  slot->chunk = chunk + 1;
  slot->chunk_used = 0;
  return true;
}

}  // namespace

extern "C" {

int64_t uscope_ring_output(const MapInfo* ring, const uint8_t* data, uint64_t size, uint64_t, uint64_t,
                           Slot* slot) {
  if (ring->kind != Kind::Ring) return kInvalid;
  const uint64_t need = sizeof(RecordHeader) + (size + 7) / 8 * 8;
  if (size > kChunkBytes || need > kChunkBytes) return kTooBig;
  if ((slot->chunk == 0 || slot->chunk_used + need > kChunkBytes) && !next_chunk(ring, slot)) return kNoRoom;
  const uint32_t chunk = slot->chunk - 1;
  ChunkHeader* header = chunk_header(ring, chunk);
  // Whoever sees no record pending and the committed ones knows all up to now.
  __atomic_store_n(&header->pending, 1, __ATOMIC_RELAXED);
  uint8_t* to = shared_of(ring) + ring->elements + uint64_t(chunk) * kChunkBytes + slot->chunk_used;
  auto* record = (RecordHeader*)to;
  record->time = ticks();
  record->size = uint32_t(size);
  copy_bytes(to + sizeof(RecordHeader), data, size);
  slot->chunk_used += uint32_t(need);
  __atomic_store_n(&header->committed, slot->chunk_used, __ATOMIC_RELEASE);
  __atomic_store_n(&header->pending, 0, __ATOMIC_RELEASE);
  return 0;
}
}

}  // namespace uscope::engine::inproc
