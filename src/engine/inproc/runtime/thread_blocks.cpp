#include "engine/inproc/runtime/thread_blocks.h"

#include <algorithm>
#include <bit>

namespace uscope::engine::inproc {

bool ThreadBlocks::is_free(uint32_t number) const {
  return __atomic_load_n(&header().free_threads[number / 64], __ATOMIC_ACQUIRE) >> number % 64 & 1;
}

uint32_t ThreadBlocks::in_use() const {
  uint32_t free = 0;
  for (const uint64_t& word : header().free_threads)
    free += uint32_t(std::popcount(__atomic_load_n(&word, __ATOMIC_RELAXED)));
  return limit() - std::min(free, limit());
}

std::map<uint32_t, std::vector<uint32_t>> ThreadBlocks::by_process() const {
  std::map<uint32_t, std::vector<uint32_t>> numbers;
  for (uint32_t i = 1; i < plan_.thread_limit; i++) {
    if (is_free(i)) continue;
    const auto* owned = reinterpret_cast<const ThreadBlock*>(block(i));
    const uint32_t process = __atomic_load_n(&owned->process, __ATOMIC_ACQUIRE);
    if (process != 0) numbers[process].push_back(i);
  }
  return numbers;
}

// What is in them is all that will ever be.
void ThreadBlocks::finish_chunks(const std::vector<bool>& is_ended) {
  for (const MapInfo& map : plan_.maps) {
    if (map.kind != Kind::Ring) continue;
    const uint32_t used =
        std::min(__atomic_load_n(&header().chunks_used, __ATOMIC_ACQUIRE), map.element_count);
    auto* chunks = reinterpret_cast<ChunkHeader*>(shared_.data() + map.buckets);
    for (ChunkHeader* chunk = chunks; chunk < chunks + used; chunk++) {
      const uint32_t owner = chunk->owner;
      if (__atomic_load_n(&chunk->state, __ATOMIC_ACQUIRE) != kChunkActive) continue;
      if (owner >= is_ended.size() || !is_ended[owner]) continue;
      __atomic_store_n(&chunk->pending, 0, __ATOMIC_RELAXED);
      __atomic_store_n(&chunk->state, uint32_t(kChunkFull), __ATOMIC_RELEASE);
    }
  }
}

void ThreadBlocks::give_back(std::span<const uint32_t> numbers) {
  std::vector<bool> is_ended(plan_.thread_limit, false);
  for (uint32_t number : numbers)
    if (number != 0 && number < is_ended.size() && !is_free(number)) is_ended[number] = true;
  finish_chunks(is_ended);
  for (uint32_t i = 1; i < is_ended.size(); i++) {
    if (!is_ended[i]) continue;
    // A process that was killed inside a probe has its scratch memory still.
    if (plan_.scratch) {
      const MapInfo& scratch = plan_.maps[*plan_.scratch];
      for (uint32_t entry = 0; entry < scratch.max_entries; entry++)
        *reinterpret_cast<uint64_t*>(block(i) + scratch.thread_values +
                                     uint64_t(entry) * scratch.value_stride) = 0;
    }
    __atomic_store_n(&reinterpret_cast<ThreadBlock*>(block(i))->process, 0, __ATOMIC_RELAXED);
    __atomic_fetch_or(&header().free_threads[i / 64], uint64_t(1) << i % 64, __ATOMIC_RELEASE);
  }
}

}  // namespace uscope::engine::inproc
