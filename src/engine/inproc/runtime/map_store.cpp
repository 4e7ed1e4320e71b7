#include "engine/inproc/runtime/map_store.h"

#include <algorithm>
#include <cstring>

#include "engine/inproc/runtime/hash_map.h"

namespace uscope::engine::inproc {
namespace {

// A writer may be stopped in the middle of a value: then it is taken as it is.
constexpr int kMostTries = 1000;

uint32_t index_of(Bytes key) {
  uint32_t index = 0;
  std::memcpy(&index, key.data(), sizeof index);
  return index;
}

}  // namespace

Status MapStore::check(uint32_t map, std::optional<Bytes> key) const {
  if (map >= plan_.maps.size() || plan_.maps[map].kind == Kind::Ring) return fail("no such map");
  if (key && key->size() != plan_.maps[map].key_size) return fail("a key of another size than the map's");
  return {};
}

uint32_t MapStore::threads() const {
  const auto* header = reinterpret_cast<const SharedHeader*>(shared_.data());
  return std::min(__atomic_load_n(&header->threads_used, __ATOMIC_ACQUIRE), plan_.thread_limit);
}

MapLive* MapStore::live(uint32_t map) const { return live_of(&plan_.maps[map], shared_.data()); }

uint8_t* MapStore::block(uint32_t thread) const {
  return shared_.data() + plan_.thread_blocks + thread * plan_.thread_stride;
}

uint8_t* MapStore::value(const MapInfo& info, uint32_t element, uint32_t thread) const {
  if (is_per_thread(info.kind))
    return block(thread) + info.thread_values + uint64_t(element) * info.value_stride;
  if (info.kind == Kind::Array) return shared_.data() + info.elements + uint64_t(element) * info.value_stride;
  return shared_.data() + info.elements + uint64_t(element) * info.element_size + sizeof(Element) +
         (info.key_size + 7) / 8 * 8;
}

// Nothing where no entry is, or where it has become another one meanwhile.
bool MapStore::copy_element(const MapInfo& info, uint32_t element, MapEntry& entry) const {
  const uint32_t copies = is_per_thread(info.kind) ? threads() : 1;
  entry.values.resize(copies);
  auto copy_values = [&] {
    for (uint32_t i = 0; i < copies; i++) {
      const uint8_t* from = value(info, element, i);
      entry.values[i].assign(from, from + info.value_size);
    }
  };
  if (is_array(info.kind)) {
    entry.key.resize(info.key_size);
    std::memcpy(entry.key.data(), &element, std::min<size_t>(info.key_size, sizeof element));
    copy_values();
    return true;
  }
  auto* e =
      reinterpret_cast<Element*>(shared_.data() + info.elements + uint64_t(element) * info.element_size);
  for (int tries = 0; tries < kMostTries; tries++) {
    const uint32_t hash = __atomic_load_n(&e->hash, __ATOMIC_ACQUIRE);
    if (hash == 0) return false;
    const uint32_t version = __atomic_load_n(&e->version, __ATOMIC_ACQUIRE);
    const uint8_t* key = HashMap::key_of(e);
    entry.key.assign(key, key + info.key_size);
    copy_values();
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!(version & 1) && __atomic_load_n(&e->version, __ATOMIC_RELAXED) == version &&
        __atomic_load_n(&e->hash, __ATOMIC_RELAXED) == hash)
      break;
  }
  // A key that does not belong to its hash is half of two.
  const uint8_t* key = entry.key.data();
  return hash_of(key, significant_bytes(key, info.key_size)) == __atomic_load_n(&e->hash, __ATOMIC_RELAXED);
}

Status MapStore::for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) const {
  TRY_STATUS(check(map, std::nullopt));
  const MapInfo& info = plan_.maps[map];
  const uint32_t fresh = __atomic_load_n(&live(map)->fresh, __ATOMIC_ACQUIRE);
  const uint32_t count = is_array(info.kind) ? info.max_entries : std::min(fresh, info.element_count);
  MapEntry entry;
  for (uint32_t i = 0; i < count; i++)
    if (copy_element(info, i, entry)) visit(entry);
  return {};
}

std::optional<uint32_t> MapStore::find_element(const MapInfo& info, Bytes key) const {
  if (is_array(info.kind)) {
    const uint32_t index = index_of(key);
    return index < info.max_entries ? std::optional(index) : std::nullopt;
  }
  // By the plan's own numbers: the chains are the target's to spoil.
  const uint32_t hash = hash_of(key.data(), significant_bytes(key.data(), info.key_size));
  const auto* buckets = reinterpret_cast<const Bucket*>(shared_.data() + info.buckets);
  uint32_t at = __atomic_load_n(&buckets[hash & info.bucket_mask].first, __ATOMIC_ACQUIRE);
  for (uint32_t steps = 0; at != 0 && at <= info.element_count && steps < info.element_count; steps++) {
    auto* e =
        reinterpret_cast<Element*>(shared_.data() + info.elements + uint64_t(at - 1) * info.element_size);
    if (e->hash == hash && same_key(HashMap::key_of(e), key.data(), info.key_size)) return at - 1;
    at = __atomic_load_n(&e->next, __ATOMIC_ACQUIRE);
  }
  return std::nullopt;
}

Result<std::optional<MapEntry>> MapStore::find_entry(uint32_t map, Bytes key) const {
  TRY_STATUS(check(map, key));
  const MapInfo& info = plan_.maps[map];
  MapEntry entry;
  auto element = find_element(info, key);
  if (!element || !copy_element(info, *element, entry)) return std::nullopt;
  return entry;
}

Status MapStore::set_entry(uint32_t map, Bytes key, Bytes new_value) {
  TRY_STATUS(check(map, key));
  const MapInfo& info = plan_.maps[map];
  if (new_value.size() != info.value_size) return fail("a value of another size than the map's");
  auto element = find_element(info, key);
  if (!element && is_array(info.kind)) return fail("no such index");
  const bool is_zero = std::ranges::all_of(new_value, [](uint8_t byte) { return byte == 0; });
  if (element && is_zero && is_per_thread(info.kind) && !is_array(info.kind)) {
    const int64_t done = HashMap(&info, shared_.data(), nullptr).renew(key.data());
    if (done == kBusy) return fail("the target has the map locked");
    if (done != kTooBig) return {};
  }
  if (!element || !is_per_thread(info.kind)) {
    if (is_array(info.kind)) {
      copy_bytes(value(info, *element, 0), new_value.data(), info.value_size);
      return {};
    }
    const int64_t done =
        HashMap(&info, shared_.data(), nullptr).update(key.data(), new_value.data(), kAnyEntry, block(0));
    if (done == kTooBig) return fail("the map is full");
    if (done != 0) return fail("the target has the map locked");
    element = find_element(info, key);
  }
  for (uint32_t i = 0; element && is_per_thread(info.kind) && i < threads(); i++)
    copy_bytes(value(info, *element, i), new_value.data(), info.value_size);
  return {};
}

Status MapStore::set_elements(uint32_t map, uint32_t first, Bytes values) {
  if (map >= plan_.maps.size()) return fail("no such map");
  const MapInfo& info = plan_.maps[map];
  if (info.kind != Kind::Array || info.value_size != info.value_stride)
    return fail("elements can be set in arrays of whole words only");
  const uint64_t count = values.size() / info.value_size;
  if (values.size() % info.value_size != 0 || first > info.max_entries || count > info.max_entries - first)
    return fail("more elements than the map has room for");
  if (count != 0) copy_bytes(value(info, first, 0), values.data(), values.size());
  return {};
}

Status MapStore::remove_entry(uint32_t map, Bytes key) {
  TRY_STATUS(check(map, key));
  if (is_array(plan_.maps[map].kind)) return fail("an array's entries stay");
  const int64_t done = HashMap(&plan_.maps[map], shared_.data(), nullptr).remove(key.data());
  if (done == kBusy) return fail("the target has the map locked");
  return {};
}

Status MapStore::clear(uint32_t map) {
  TRY_STATUS(check(map, std::nullopt));
  const MapInfo& info = plan_.maps[map];
  if (is_array(info.kind)) {
    const uint32_t copies = is_per_thread(info.kind) ? threads() : 1;
    for (uint32_t i = 0; i < copies; i++)
      zero_bytes(value(info, 0, i), uint64_t(info.max_entries) * info.value_stride);
    return {};
  }
  std::vector<std::vector<uint8_t>> keys;
  TRY_STATUS(for_each_entry(map, [&](const MapEntry& entry) { keys.push_back(entry.key); }));
  for (const auto& key : keys) TRY_STATUS(remove_entry(map, key));
  return {};
}

MapStore::Losses MapStore::losses() const {
  Losses out;
  const auto* header = reinterpret_cast<const SharedHeader*>(shared_.data());
  out.threadless_hits = header->hits_without_slot;
  out.nested_hits = header->hits_while_claiming;
  for (uint32_t i = 0; i < threads(); i++) {
    const auto* thread = reinterpret_cast<const ThreadBlock*>(block(i));
    out.nested_hits += thread->dropped;
  }
  for (uint32_t i = 0; i < plan_.maps.size(); i++) out.busy_updates += live(i)->lost;
  return out;
}

}  // namespace uscope::engine::inproc
