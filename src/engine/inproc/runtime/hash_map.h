// Hash maps in shared memory, the same code for both sides: probes in the target's threads and the reader
// outside. Elements are preallocated and chained in buckets; each bucket has a lock for those who add or
// remove, and those who look up take none: a chain ends with its bucket's number, so that whoever was led
// astray by an element that moved meanwhile notices and starts again. Nothing here waits without bound:
// whoever holds a lock may be stopped or dead. Nor is anything in shared memory believed: what leads to an
// element is compared with how many there are, and read once. Freestanding: no library, no allocation.
#pragma once

#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {

// As the kernel returns them, negated.
inline constexpr int64_t kNotFound = -2, kTooBig = -7, kBusy = -16, kExists = -17, kInvalid = -22;
// BPF_ANY, BPF_NOEXIST, BPF_EXIST
inline constexpr uint64_t kAnyEntry = 0, kOnlyNew = 1, kOnlyOld = 2;

inline uint8_t* shared_of(const MapInfo* map) { return (uint8_t*)map - map->self; }
inline MapLive* live_of(const MapInfo* map, uint8_t* shared) { return (MapLive*)(shared + map->live); }

inline bool is_per_thread(Kind kind) {
  return kind == Kind::PerThreadArray || kind == Kind::PerThreadHash || kind == Kind::PerThreadLruHash;
}
inline bool is_lru(Kind kind) { return kind == Kind::LruHash || kind == Kind::PerThreadLruHash; }
inline bool is_array(Kind kind) { return kind == Kind::Array || kind == Kind::PerThreadArray; }

inline uint64_t load_word(const uint8_t* from) {
  uint64_t word;
  __builtin_memcpy(&word, from, 8);
  return word;
}

inline uint64_t load_tail(const uint8_t* from, uint32_t size) {
  uint64_t word = 0;
  if (size == 4) {
    uint32_t half;
    __builtin_memcpy(&half, from, 4);
    return half;
  }
  for (uint32_t i = 0; i < size; i++) word |= uint64_t(from[i]) << (8 * i);
  return word;
}

// How much of a key has to be looked at. Long keys are texts, mostly: a few letters, then zeroes to the end.
inline constexpr uint32_t kLongKey = 64;
inline uint32_t significant_bytes(const uint8_t* key, uint32_t size) {
  if (size <= kLongKey) return size;
  uint32_t end = size / 8 * 8;
  if (end < size && load_tail(key + end, size - end) != 0) return size;
  while (end > 32 && (load_word(key + end - 8) | load_word(key + end - 16) | load_word(key + end - 24) |
                      load_word(key + end - 32)) == 0)
    end -= 32;
  while (end > 8 && load_word(key + end - 8) == 0) end -= 8;
  return end;
}
// The same of a long key that is a text of `length` bytes and zeroes.
inline uint32_t significant_in_text(uint32_t length, uint32_t size) {
  if (length > size / 8 * 8) return size;
  return length == 0 ? 8 : (length + 7) / 8 * 8;
}
inline uint16_t words_of(uint32_t bytes) { return uint16_t((bytes + 7) / 8); }

// Of `size` significant bytes. Never 0. The compiled code has a copy of the 8- and 4-byte cases.
inline constexpr uint32_t kHashIsSet = 0x80000000;
inline uint32_t hash_of(const uint8_t* key, uint32_t size) {
  if (size == 8) return uint32_t((load_word(key) * kSlotHash) >> 32) | kHashIsSet;
  if (size == 4) return uint32_t((load_tail(key, 4) * kSlotHash) >> 32) | kHashIsSet;
  // Four lanes: a multiplication takes three cycles and one can start in each.
  uint64_t lane[4] = {size, 1, 2, 3};
  uint32_t at = 0;
  for (; at + 32 <= size; at += 32)
    for (uint32_t i = 0; i < 4; i++) {
      lane[i] = (lane[i] ^ load_word(key + at + 8 * i)) * kSlotHash;
      lane[i] ^= lane[i] >> 29;
    }
  for (; at + 8 <= size; at += 8) {
    lane[0] = (lane[0] ^ load_word(key + at)) * kSlotHash;
    lane[0] ^= lane[0] >> 29;
  }
  if (at < size) lane[0] = (lane[0] ^ load_tail(key + at, size - at)) * kSlotHash;
  uint64_t all = (lane[0] ^ (lane[1] * 3)) * kSlotHash + (lane[2] ^ (lane[3] * 5));
  return uint32_t((all * kSlotHash) >> 32) | kHashIsSet;
}

inline bool same_key(const uint8_t* a, const uint8_t* b, uint32_t size) {
  uint32_t at = 0;
  for (; at + 8 <= size; at += 8)
    if (load_word(a + at) != load_word(b + at)) return false;
  for (; at < size; at++)
    if (a[at] != b[at]) return false;
  return true;
}

template <typename T>
inline void copy_number(uint8_t* to, const uint8_t* from) {
  __atomic_store_n((T*)to, __atomic_load_n((const T*)from, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

inline void copy_bytes(uint8_t* to, const uint8_t* from, uint64_t size) {
  // A number is copied whole, as others may write and read it meanwhile.
  if (size == 8) return copy_number<uint64_t>(to, from);
  if (size == 4) return copy_number<uint32_t>(to, from);
  if (size == 2) return copy_number<uint16_t>(to, from);
  for (; size >= 8; size -= 8, to += 8, from += 8) {
    uint64_t word = load_word(from);
    __builtin_memcpy(to, &word, 8);
  }
  for (; size > 0; size--) *to++ = *from++;
}

// A probe may be inside code that has it set.
inline bool strings_go_backwards() {
  constexpr uint64_t kDirection = 0x400;
  return __builtin_ia32_readeflags_u64() & kDirection;
}

inline void zero_bytes(uint8_t* to, uint64_t size) {
  if (size >= 256 && !strings_go_backwards()) {
    uint64_t words = size / 8;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(0) : "memory");
    size %= 8;
  }
  const uint64_t zero = 0;
  for (; size >= 8; size -= 8, to += 8) __builtin_memcpy(to, &zero, 8);
  for (; size > 0; size--) *to++ = 0;
}

// Nobody waits for another thread longer than this.
inline constexpr uint32_t kMostLockTurns = 4096;

class HashMap {
 public:
  // `slot` is the thread's in the target; null for the reader outside, which keeps no elements for itself.
  HashMap(const MapInfo* map, uint8_t* shared, Slot* slot)
      : map_(map), live_(live_of(map, shared)), slot_(slot), shared_(shared) {}

  Element* element(uint32_t number) const {
    return (Element*)(shared_ + map_->elements + uint64_t(number) * map_->element_size);
  }
  uint32_t number_of(const Element* e) const {
    return uint32_t(uint64_t((const uint8_t*)e - shared_ - map_->elements) / map_->element_size);
  }
  static uint8_t* key_of(Element* e) { return (uint8_t*)(e + 1); }
  // One thread's copy, or the only one.
  uint8_t* value_of(Element* e, uint8_t* thread_block) const {
    if (!is_per_thread(map_->kind)) return key_of(e) + (map_->key_size + 7) / 8 * 8;
    return thread_block + map_->thread_values + uint64_t(number_of(e)) * map_->value_stride;
  }
  uint8_t* thread_block(uint32_t index) const {
    return shared_ + map_->thread_blocks + index * map_->thread_stride;
  }

  Element* find(const uint8_t* key) const {
    return find_significant(key, significant_bytes(key, map_->key_size));
  }
  // For who knows already that the key's bytes from `size` on, a multiple of 8 or all, are 0 (and those
  // before not all, but for the first word).
  Element* find_significant(const uint8_t* key, uint32_t size) const {
    return find(key, size, hash_of(key, size));
  }

  int64_t update(const uint8_t* key, const uint8_t* value, uint64_t flags, uint8_t* own_block) {
    if (flags > kOnlyOld) return kInvalid;
    const uint32_t size = significant_bytes(key, map_->key_size), hash = hash_of(key, size);
    if (Element* e = find(key, size, hash)) return flags == kOnlyNew ? kExists : write(e, value, own_block);
    if (flags == kOnlyOld) return kNotFound;
    uint32_t fresh = take_element();
    // Others may have the spare elements in their hands, for this very key too.
    for (uint32_t turns = 0; fresh == kNone && turns < kMostLockTurns && !is_full(); turns++) {
      __builtin_ia32_pause();
      fresh = take_element();
    }
    if (fresh == kNone) {
      Element* e = find(key, size, hash);
      return !e ? kTooBig : flags == kOnlyNew ? kExists : write(e, value, own_block);
    }
    Element* e = element(fresh);
    copy_bytes(key_of(e), key, map_->key_size);
    if (is_per_thread(map_->kind) && (e->flags & kUsedBefore)) zero_everywhere(e);
    e->flags = kUsedBefore | kReferenced;
    e->words = words_of(size);
    copy_bytes(value_of(e, own_block), value, map_->value_size);
    Bucket& bucket = bucket_of(hash);
    if (!lock(bucket)) {
      give_element(fresh);
      return kBusy;
    }
    Element* other = find(key, size, hash);
    const bool is_linked = !other && count_in();
    if (is_linked) link(bucket, hash, e, fresh);
    unlock(bucket);
    if (is_linked) return 0;
    give_element(fresh);
    if (!other) return kTooBig;
    return flags == kOnlyNew ? kExists : write(other, value, own_block);
  }

  int64_t remove(const uint8_t* key) {
    const uint32_t size = significant_bytes(key, map_->key_size), hash = hash_of(key, size);
    Bucket& bucket = bucket_of(hash);
    if (!bucket.first) return kNotFound;
    if (!lock(bucket)) return kBusy;
    const uint32_t removed = take_out(bucket, key, size, hash);
    unlock(bucket);
    if (removed == kNone) return kNotFound;
    give_element(removed);
    if (is_exact()) __atomic_fetch_sub(&live_->linked, 1, __ATOMIC_RELAXED);
    return 0;
  }

  // Puts an element that is all zeroes in the place of the key's, of values per thread. Threads add to theirs
  // all the time, and would write back what is overwritten; what they still add to the old one is not seen.
  int64_t renew(const uint8_t* key) {
    const uint32_t size = significant_bytes(key, map_->key_size), hash = hash_of(key, size);
    const uint32_t fresh = take_element();
    if (fresh == kNone) return kTooBig;
    Element* e = element(fresh);
    copy_bytes(key_of(e), key, map_->key_size);
    zero_everywhere(e);
    e->flags = kUsedBefore | kReferenced;
    e->words = words_of(size);
    Bucket& bucket = bucket_of(hash);
    const bool is_ours = lock(bucket);
    const uint32_t old = is_ours ? take_out(bucket, key, size, hash) : kNone;
    if (old != kNone) link(bucket, hash, e, fresh);
    if (is_ours) unlock(bucket);
    give_element(old != kNone ? old : fresh);
    return !is_ours ? kBusy : old != kNone ? 0 : kNotFound;
  }

 private:
  // From its chain, which is locked; its number.
  uint32_t take_out(Bucket& bucket, const uint8_t* key, uint32_t size, uint32_t hash) {
    uint32_t* from = &bucket.first;
    uint32_t at = read_once(from);
    for (uint32_t steps = 0; leads_on(at) && steps <= map_->element_count; steps++) {
      Element* e = element(at - 1);
      if (is_key(e, key, size, hash)) {
        unlink(bucket, from, e);
        return at - 1;
      }
      from = &e->next;
      at = read_once(from);
    }
    return kNone;
  }

  Bucket& bucket_of(uint32_t hash) const {
    return ((Bucket*)(shared_ + map_->buckets))[hash & map_->bucket_mask];
  }

  static uint32_t read_once(const uint32_t* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
  // Whether a link is an element's number + 1: not 0, no end mark, nothing else.
  bool leads_on(uint32_t link) const { return link - 1 < map_->element_count; }

  // Small maps hold exactly as many entries as they were made for. Large ones share their elements out in
  // batches and hold about as many, as the kernel's do.
  bool is_exact() const { return map_->free_batch == 1 && !is_lru(map_->kind); }
  bool is_full() const {
    return !is_exact() || __atomic_load_n(&live_->linked, __ATOMIC_RELAXED) >= map_->max_entries;
  }
  bool count_in() {
    if (!is_exact()) return true;
    if (__atomic_fetch_add(&live_->linked, 1, __ATOMIC_RELAXED) < map_->max_entries) return true;
    __atomic_fetch_sub(&live_->linked, 1, __ATOMIC_RELAXED);
    return false;
  }

  static bool is_key(Element* e, const uint8_t* key, uint32_t size, uint32_t hash) {
    return e->hash == hash && e->words == words_of(size) && same_key(key_of(e), key, size);
  }

  Element* find(const uint8_t* key, uint32_t size, uint32_t hash) const {
    Bucket& bucket = bucket_of(hash);
    for (int tries = 0; tries < 16; tries++) {
      uint32_t at = __atomic_load_n(&bucket.first, __ATOMIC_ACQUIRE);
      uint32_t steps = 0;
      for (; leads_on(at) && steps <= map_->element_count; steps++) {
        Element* e = element(at - 1);
        if (is_key(e, key, size, hash)) {
          if (is_lru(map_->kind) && !(e->flags & kReferenced)) e->flags = e->flags | kReferenced;
          return e;
        }
        at = __atomic_load_n(&e->next, __ATOMIC_ACQUIRE);
      }
      if (at == 0 || at == (kEndOfChain | (hash & map_->bucket_mask))) return nullptr;
      if (steps > map_->element_count) return nullptr;  // a circle: somebody wrote into the map
    }
    return nullptr;
  }

  bool lock(Bucket& bucket) {
    for (uint32_t turns = 0; turns < kMostLockTurns; turns++) {
      uint32_t seen = 0;
      if (__atomic_compare_exchange_n(&bucket.lock, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return true;
      __builtin_ia32_pause();
    }
    // Nobody's lock is ever taken over: its holder may be stopped, and go on.
    __atomic_fetch_add(&live_->lost, 1, __ATOMIC_RELAXED);
    return false;
  }
  static void unlock(Bucket& bucket) { __atomic_store_n(&bucket.lock, 0, __ATOMIC_RELEASE); }

  void link(Bucket& bucket, uint32_t hash, Element* e, uint32_t number) {
    e->hash = hash;
    e->next = bucket.first ? bucket.first : kEndOfChain | (hash & map_->bucket_mask);
    __atomic_store_n(&bucket.first, number + 1, __ATOMIC_RELEASE);
  }
  static void unlink(Bucket& bucket, uint32_t* from, Element* e) {
    uint32_t next = e->next;
    if (from == &bucket.first && (next & kEndOfChain)) next = 0;
    __atomic_store_n(from, next, __ATOMIC_RELEASE);
  }

  int64_t write(Element* e, const uint8_t* value, uint8_t* own_block) {
    uint8_t* to = value_of(e, own_block);
    if (map_->value_size == 8 || is_per_thread(map_->kind)) {
      copy_bytes(to, value, map_->value_size);
      return 0;
    }
    // The reader outside looks at the version before and after.
    __atomic_fetch_or(&e->version, 1, __ATOMIC_ACQUIRE);
    copy_bytes(to, value, map_->value_size);
    __atomic_fetch_add(&e->version, 1, __ATOMIC_RELEASE);
    return 0;
  }

  void zero_everywhere(Element* e) {
    const uint32_t used = __atomic_load_n(&((SharedHeader*)shared_)->threads_used, __ATOMIC_RELAXED);
    const uint32_t threads = used < map_->thread_limit ? used : map_->thread_limit;
    for (uint32_t i = 0; i < threads; i++) zero_bytes(value_of(e, thread_block(i)), map_->value_size);
  }

  // Free elements are chained through `next`, ending with kEndOfFree, so that a chain walked by mistake ends.
  uint32_t take_element() {
    KeptElements* kept = kept_elements();
    const uint32_t number = kept && kept->count > 0 ? read_once(&kept->first) : kNone;
    if (number < map_->element_count) {
      kept->first = read_once(&element(number)->next) - 1;
      // Of the last one that is none.
      kept->count = leads_on(kept->first + 1) ? kept->count - 1 : 0;
      return number;
    }
    uint64_t head = __atomic_load_n(&live_->free_list, __ATOMIC_ACQUIRE);
    while (leads_on(uint32_t(head))) {
      const uint32_t next = __atomic_load_n(&element(uint32_t(head) - 1)->next, __ATOMIC_RELAXED);
      const uint64_t want = ((head >> 32) + 1) << 32 | (next == kEndOfFree ? 0 : next);
      if (__atomic_compare_exchange_n(&live_->free_list, &head, want, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE))
        return uint32_t(head) - 1;
    }
    return take_fresh(kept ? map_->free_batch : 1);
  }

  uint32_t take_fresh(uint32_t batch) {
    uint32_t fresh = __atomic_load_n(&live_->fresh, __ATOMIC_RELAXED);
    uint32_t taken = 0;
    do {
      if (fresh >= map_->element_count) return is_lru(map_->kind) ? evict() : kNone;
      taken = map_->element_count - fresh < batch ? map_->element_count - fresh : batch;
    } while (!__atomic_compare_exchange_n(&live_->fresh, &fresh, fresh + taken, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    for (uint32_t i = 1; i < taken; i++) keep(kept_elements(), fresh + taken - i);
    return fresh;
  }

  KeptElements* kept_elements() const {
    if (!slot_ || map_->free_batch == 1 || slot_->index >= kMostKeepers) return nullptr;
    return &((ThreadBlock*)slot_->values)->kept[map_->number];
  }
  void keep(KeptElements* kept, uint32_t number) {
    element(number)->next = kept->count ? kept->first + 1 : kEndOfFree;
    kept->first = number;
    kept->count++;
  }

  void give_element(uint32_t number) {
    Element* e = element(number);
    e->hash = 0;
    if (KeptElements* kept = kept_elements(); kept && kept->count < 2 * map_->free_batch)
      return keep(kept, number);
    uint64_t head = __atomic_load_n(&live_->free_list, __ATOMIC_ACQUIRE);
    uint64_t want;
    do {
      __atomic_store_n(&e->next, uint32_t(head) ? uint32_t(head) : kEndOfFree, __ATOMIC_RELAXED);
      want = ((head >> 32) + 1) << 32 | (number + 1);
    } while (!__atomic_compare_exchange_n(&live_->free_list, &head, want, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
  }

  // Takes an element that nobody has looked at since the hand last passed.
  uint32_t evict() {
    for (uint32_t steps = 0; steps < 2 * map_->element_count + 64 && steps < 4096; steps++) {
      const uint32_t number = __atomic_fetch_add(&live_->lru_hand, 1, __ATOMIC_RELAXED) % map_->element_count;
      Element* e = element(number);
      const uint32_t hash = e->hash;
      if (hash == 0) continue;
      if (e->flags & kReferenced) {
        e->flags = uint16_t(e->flags & ~kReferenced);
        continue;
      }
      Bucket& bucket = bucket_of(hash);
      if (!lock(bucket)) continue;
      uint32_t* from = &bucket.first;
      uint32_t at = read_once(from);
      for (uint32_t passed = 0; leads_on(at) && at != number + 1 && passed < map_->element_count; passed++) {
        from = &element(at - 1)->next;
        at = read_once(from);
      }
      const bool found = at == number + 1 && e->hash == hash;
      if (found) unlink(bucket, from, e);
      unlock(bucket);
      if (!found) continue;
      e->hash = 0;
      return number;
    }
    return kNone;
  }

  const MapInfo* map_;
  MapLive* live_;
  Slot* slot_;
  uint8_t* shared_;
};

}  // namespace uscope::engine::inproc
