// The maps of a traced target, from outside: reading, setting, removing, through uscope's own mapping of the
// shared memory, while the target's threads go on using them. A target may write anything into that memory:
// offsets and sizes come from the plan, never from there. Owns nothing. Used from one thread.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/inproc/runtime/shared_plan.h"

namespace uscope::engine::inproc {

class MapStore {
 public:
  MapStore(const SharedPlan& plan, std::span<uint8_t> shared) : plan_(plan), shared_(shared) {}

  // A per-thread map's entry has one value for each thread that was ever seen.
  Status for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) const;
  Result<std::optional<MapEntry>> find_entry(uint32_t map, Bytes key) const;
  Status set_entry(uint32_t map, Bytes key, Bytes value);
  // Of an array that all threads share.
  Status set_elements(uint32_t map, uint32_t first, Bytes values);
  Status remove_entry(uint32_t map, Bytes key);
  Status clear(uint32_t map);

  struct Losses {
    uint64_t nested_hits = 0;      // arrived while the thread was in a probe: a signal handler's, mostly
    uint64_t threadless_hits = 0;  // of more threads than there is room for
    uint64_t busy_updates = 0;     // gave up waiting for another thread
  };
  Losses losses() const;

 private:
  Status check(uint32_t map, std::optional<Bytes> key) const;
  uint32_t threads() const;
  MapLive* live(uint32_t map) const;
  uint8_t* block(uint32_t thread) const;
  uint8_t* value(const MapInfo& info, uint32_t element, uint32_t thread) const;
  bool copy_element(const MapInfo& info, uint32_t element, MapEntry& entry) const;
  std::optional<uint32_t> find_element(const MapInfo& info, Bytes key) const;

  const SharedPlan& plan_;
  std::span<uint8_t> shared_;
};

}  // namespace uscope::engine::inproc
