// One BPF map in the kernel, made from a MapSpec and gone with its last user (its fd here, programs that use
// it). Reads large maps in batches. Per-CPU kinds have a value for each possible processor; the padding that
// the kernel puts between them is not seen outside.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "codegen/program.h"
#include "engine/engine.h"

namespace uscope::engine::kernel {

class Map {
 public:
  static Result<Map> create(const codegen::MapSpec& spec, size_t possible_cpus);

  const codegen::MapSpec& spec() const { return spec_; }
  int fd() const { return fd_.get(); }

  // Every entry once. What is added or removed meanwhile may or may not be seen.
  Status for_each(const std::function<void(const MapEntry&)>& visit) const;
  Result<std::optional<MapEntry>> find(Bytes key) const;
  // The same value on every CPU.
  Status set(Bytes key, Bytes value) const;
  // Of an array, from index `first` on; by way of memory that it shares with the kernel.
  Status set_elements(uint32_t first, Bytes values) const;
  // No Error if there is none. An entry of an array becomes zero.
  Status remove(Bytes key) const;
  Status clear() const;

 private:
  Map(const codegen::MapSpec& spec, Fd fd, size_t copies);

  bool is_array() const;
  Status check_key(Bytes key) const;
  // Reuses the memory of `entry`: a walk over 100,000 keys allocates for one.
  void fill(MapEntry& entry, const uint8_t* key, const uint8_t* values) const;
  // Hands over keys and values of up to some thousand entries at a time; false when the kernel has no batches
  // for this kind of map.
  Result<bool> for_each_batch(
      const std::function<void(const uint8_t* key, const uint8_t* values)>& visit) const;
  Result<std::vector<std::vector<uint8_t>>> all_keys() const;
  Error error(const char* doing, int error_number) const;

  codegen::MapSpec spec_;
  Fd fd_;
  size_t copies_;     // values an entry: the possible processors, or 1
  size_t copy_size_;  // of one value as the kernel hands it over
};

}  // namespace uscope::engine::kernel
