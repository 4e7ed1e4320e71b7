// Maps, as the kernel's helpers serve them.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

uint8_t* array_value(const MapInfo* map, uint32_t index, uint8_t* thread_block) {
  if (index >= map->max_entries) return nullptr;
  const uint64_t offset = uint64_t(index) * map->value_stride;
  return map->kind == Kind::Array ? shared_of(map) + map->elements + offset
                                  : thread_block + map->thread_values + offset;
}

uint8_t* value_in(const MapInfo* map, const uint8_t* key, uint8_t* thread_block, Slot* slot) {
  if (map->kind == Kind::Ring) return nullptr;
  if (is_array(map->kind)) {
    uint32_t index;
    __builtin_memcpy(&index, key, 4);
    return array_value(map, index, thread_block);
  }
  HashMap hash(map, shared_of(map), slot);
  Element* e = hash.find(key);
  return e ? hash.value_of(e, thread_block) : nullptr;
}

using Callback = uint64_t (*)(const MapInfo*, const uint8_t*, uint8_t*, uint64_t, uint64_t, Slot*);
using LoopCallback = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot*);

}  // namespace

extern "C" {

uint64_t uscope_map_lookup(const MapInfo* map, const uint8_t* key, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return (uint64_t)value_in(map, key, (uint8_t*)slot->values, slot);
}

uint64_t uscope_map_lookup_text(const MapInfo* map, const uint8_t* key, uint64_t, uint64_t, uint64_t,
                                Slot* slot) {
  const bool is_known = slot->text.address == (uint64_t)key && slot->text.size == map->key_size;
  if (!is_known || map->key_size <= kLongKey || is_array(map->kind) || map->kind == Kind::Ring)
    return uscope_map_lookup(map, key, 0, 0, 0, slot);
  HashMap hash(map, shared_of(map), slot);
  Element* e = hash.find_significant(key, significant_in_text(slot->text.end, map->key_size));
  return e ? (uint64_t)hash.value_of(e, (uint8_t*)slot->values) : 0;
}

uint64_t uscope_map_lookup_thread(const MapInfo* map, const uint8_t* key, uint64_t thread, uint64_t, uint64_t,
                                  Slot* slot) {
  if (!is_per_thread(map->kind) || thread >= map->thread_limit) return 0;
  if (thread >= shared_header(slot)->threads_used) return 0;
  uint8_t* block = shared_of(map) + map->thread_blocks + thread * map->thread_stride;
  return (uint64_t)value_in(map, key, block, slot);
}

int64_t uscope_map_update(const MapInfo* map, const uint8_t* key, const uint8_t* value, uint64_t flags,
                          uint64_t, Slot* slot) {
  if (map->kind == Kind::Ring) return kInvalid;
  if (!is_array(map->kind))
    return HashMap(map, shared_of(map), slot).update(key, value, flags, (uint8_t*)slot->values);
  if (flags == kOnlyNew) return kExists;
  uint8_t* to = value_in(map, key, (uint8_t*)slot->values, slot);
  if (!to) return kTooBig;
  copy_bytes(to, value, map->value_size);
  return 0;
}

int64_t uscope_map_delete(const MapInfo* map, const uint8_t* key, uint64_t, uint64_t, uint64_t, Slot* slot) {
  if (map->kind == Kind::Ring || is_array(map->kind)) return kInvalid;
  return HashMap(map, shared_of(map), slot).remove(key);
}

// Calls back with (map, key, value, context) until the answer is 1; returns how many times.
int64_t uscope_map_for_each(const MapInfo* map, uint64_t callback, uint64_t context, uint64_t flags, uint64_t,
                            Slot* slot) {
  if (flags != 0 || map->kind == Kind::Ring) return kInvalid;
  const auto call = (Callback)callback;
  auto* block = (uint8_t*)slot->values;
  int64_t calls = 0;
  if (is_array(map->kind)) {
    for (uint32_t i = 0; i < map->max_entries; i++, calls++)
      if (call(map, (const uint8_t*)&i, array_value(map, i, block), context, 0, slot) != 0) return calls + 1;
    return calls;
  }
  HashMap hash(map, shared_of(map), slot);
  const uint32_t fresh = __atomic_load_n(&live_of(map, shared_of(map))->fresh, __ATOMIC_RELAXED);
  const uint32_t used = fresh < map->element_count ? fresh : map->element_count;
  for (uint32_t i = 0; i < used; i++) {
    Element* e = hash.element(i);
    if (e->hash == 0) continue;
    calls++;
    if (call(map, HashMap::key_of(e), hash.value_of(e, block), context, 0, slot) != 0) break;
  }
  return calls;
}

int64_t uscope_loop(uint64_t rounds, uint64_t callback, uint64_t context, uint64_t flags, uint64_t,
                    Slot* slot) {
  constexpr uint64_t kMostRounds = 8u << 20;
  if (flags != 0) return kInvalid;
  if (uint32_t(rounds) > kMostRounds) return kTooBig;
  for (uint64_t i = 0; i < uint32_t(rounds); i++)
    if (((LoopCallback)callback)(i, context, 0, 0, 0, slot) != 0) return int64_t(i) + 1;
  return int64_t(uint32_t(rounds));
}
}

}  // namespace uscope::engine::inproc
