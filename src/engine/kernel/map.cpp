#include "engine/kernel/map.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "engine/kernel/bpf_calls.h"

namespace uscope::engine::kernel {

namespace {

using codegen::MapKind;

constexpr size_t kBatchBytes = size_t(1) << 20;
constexpr int kNotSupported = 524;  // ENOTSUPP, the kernel's own, which has no name outside

bool is_per_cpu(MapKind kind) {
  return kind == MapKind::PerCpuHash || kind == MapKind::PerCpuLruHash || kind == MapKind::PerCpuArray;
}

bpf_map_type kernel_type(MapKind kind) {
  switch (kind) {
    case MapKind::Hash:
      return BPF_MAP_TYPE_HASH;
    case MapKind::LruHash:
      return BPF_MAP_TYPE_LRU_HASH;
    case MapKind::PerCpuHash:
      return BPF_MAP_TYPE_PERCPU_HASH;
    case MapKind::PerCpuLruHash:
      return BPF_MAP_TYPE_LRU_PERCPU_HASH;
    case MapKind::Array:
      return BPF_MAP_TYPE_ARRAY;
    case MapKind::PerCpuArray:
      return BPF_MAP_TYPE_PERCPU_ARRAY;
    case MapKind::RingBuffer:
      return BPF_MAP_TYPE_RINGBUF;
  }
  return BPF_MAP_TYPE_UNSPEC;
}

constexpr size_t kPageSize = 4096;

// Arrays of more than a few elements: filled by a copy instead of a call for each (Linux 5.5). The kernel
// puts elements at multiples of 8 bytes.
bool is_mapped(const codegen::MapSpec& spec) {
  return spec.kind == MapKind::Array && spec.max_entries > 64 && spec.value_size % 8 == 0;
}

int create_map(const codegen::MapSpec& spec) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.map_type = kernel_type(spec.kind);
  bool is_ring = spec.kind == MapKind::RingBuffer;
  attributes.key_size = is_ring ? 0 : spec.key_size;
  attributes.value_size = is_ring ? 0 : spec.value_size;
  attributes.max_entries = spec.max_entries;
  if (is_mapped(spec)) attributes.map_flags = BPF_F_MMAPABLE;
  std::string name = object_name(spec.name);
  std::memcpy(attributes.map_name, name.data(), name.size());
  return bpf_call(BPF_MAP_CREATE, &attributes, sizeof attributes);
}

bpf_attr element(int fd, const void* key, const void* value) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.map_fd = uint32_t(fd);
  attributes.key = uint64_t(key);
  attributes.value = uint64_t(value);
  return attributes;
}

}  // namespace

Map::Map(const codegen::MapSpec& spec, Fd fd, size_t copies)
    : spec_(spec),
      fd_(std::move(fd)),
      copies_(copies),
      copy_size_(is_per_cpu(spec.kind) ? (size_t(spec.value_size) + 7) / 8 * 8 : spec.value_size) {}

Result<Map> Map::create(const codegen::MapSpec& spec, size_t possible_cpus) {
  int fd = create_map(spec);
  if (fd < 0 && errno == EPERM) {
    lift_memlock_limit();
    fd = create_map(spec);
  }
  if (fd < 0) {
    int reason = errno;
    Error error = Error::from_errno("making the map @" + spec.name, reason);
    if (reason == EPERM)
      error = std::move(error).with_hint("the kernel engine needs root, or CAP_BPF and CAP_PERFMON");
    if (reason == E2BIG || reason == ENOMEM)
      error = std::move(error).with_hint("make the map smaller, by fewer keys or shorter values");
    return fail(std::move(error));
  }
  return Map(spec, Fd(fd), is_per_cpu(spec.kind) ? possible_cpus : 1);
}

bool Map::is_array() const { return spec_.kind == MapKind::Array || spec_.kind == MapKind::PerCpuArray; }

Error Map::error(const char* doing, int error_number) const {
  return Error::from_errno(std::string(doing) + " @" + spec_.name, error_number);
}

Status Map::check_key(Bytes key) const {
  if (spec_.kind == MapKind::RingBuffer) return fail("@" + spec_.name + " is a ring buffer and has no keys");
  if (key.size() == spec_.key_size) return {};
  return fail("@" + spec_.name + " has keys of " + std::to_string(spec_.key_size) + " bytes, not " +
              std::to_string(key.size()));
}

void Map::fill(MapEntry& entry, const uint8_t* key, const uint8_t* values) const {
  entry.key.assign(key, key + spec_.key_size);
  entry.values.resize(copies_);
  for (size_t i = 0; i < copies_; i++) {
    const uint8_t* value = values + i * copy_size_;
    entry.values[i].assign(value, value + spec_.value_size);
  }
}

Result<bool> Map::for_each_batch(const std::function<void(const uint8_t*, const uint8_t*)>& visit) const {
  size_t entry_size = spec_.key_size + copies_ * copy_size_;
  size_t room = std::clamp<size_t>(kBatchBytes / std::max<size_t>(entry_size, 1), 64, 65536);
  room = std::min<size_t>(room, std::max(spec_.max_entries, 1u));
  // Where the walk stands: opaque to us, a bucket for hashes, a key for the others.
  std::vector<uint8_t> position(std::max<size_t>(spec_.key_size, 8));
  std::vector<uint8_t> keys(room * spec_.key_size);
  std::vector<uint8_t> values(room * copies_ * copy_size_);
  for (bool is_first = true;;) {
    bpf_attr attributes;
    std::memset(&attributes, 0, sizeof attributes);
    attributes.batch.map_fd = uint32_t(fd_.get());
    attributes.batch.in_batch = is_first ? 0 : uint64_t(position.data());
    attributes.batch.out_batch = uint64_t(position.data());
    attributes.batch.keys = uint64_t(keys.data());
    attributes.batch.values = uint64_t(values.data());
    attributes.batch.count = uint32_t(room);
    int status = bpf_call(BPF_MAP_LOOKUP_BATCH, &attributes, sizeof attributes.batch);
    int error_number = status == 0 ? 0 : errno;
    if (error_number == EINTR) continue;
    if (error_number == ENOSPC && room < spec_.max_entries) {  // one bucket holds more than fits
      room = std::min<size_t>(room * 2, spec_.max_entries);
      keys.resize(room * spec_.key_size);
      values.resize(room * copies_ * copy_size_);
      continue;
    }
    bool is_unsupported =
        error_number == EINVAL || error_number == EOPNOTSUPP || error_number == kNotSupported;
    if (is_first && is_unsupported) return false;
    if (error_number != 0 && error_number != ENOENT) return fail(error("reading", error_number));
    size_t count = std::min<size_t>(attributes.batch.count, room);
    for (size_t i = 0; i < count; i++)
      visit(keys.data() + i * spec_.key_size, values.data() + i * copies_ * copy_size_);
    if (error_number == ENOENT) return true;
    is_first = false;
  }
}

Result<std::vector<std::vector<uint8_t>>> Map::all_keys() const {
  std::vector<std::vector<uint8_t>> keys;
  TRY(bool done, for_each_batch([&](const uint8_t* key, const uint8_t*) {
        keys.emplace_back(key, key + spec_.key_size);
      }));
  if (done) return keys;
  // One by one. The walk starts over when the key it stands on is removed under it, hence the set and the
  // bound.
  std::set<std::vector<uint8_t>> seen;
  std::vector<uint8_t> next(spec_.key_size);
  const void* current = nullptr;
  std::vector<uint8_t> last;
  for (size_t steps = 0; steps < 4 * size_t(spec_.max_entries) + 4; steps++) {
    bpf_attr attributes = element(fd_.get(), current, nullptr);
    attributes.next_key = uint64_t(next.data());
    if (bpf_call(BPF_MAP_GET_NEXT_KEY, &attributes, sizeof attributes) != 0) {
      if (errno == ENOENT) break;
      return fail(error("walking", errno));
    }
    seen.insert(next);
    last = next;
    current = last.data();
  }
  return std::vector<std::vector<uint8_t>>(seen.begin(), seen.end());
}

Status Map::for_each(const std::function<void(const MapEntry&)>& visit) const {
  if (spec_.kind == MapKind::RingBuffer) return fail("@" + spec_.name + " is a ring buffer and has no keys");
  MapEntry reused;
  TRY(bool done, for_each_batch([&](const uint8_t* key, const uint8_t* values) {
        fill(reused, key, values);
        visit(reused);
      }));
  if (done) return {};
  TRY(auto keys, all_keys());
  for (const auto& key : keys) {
    TRY(auto entry, find(key));
    if (entry) visit(*entry);
  }
  return {};
}

Result<std::optional<MapEntry>> Map::find(Bytes key) const {
  TRY_STATUS(check_key(key));
  std::vector<uint8_t> values(copies_ * copy_size_);
  bpf_attr attributes = element(fd_.get(), key.data(), values.data());
  if (bpf_call(BPF_MAP_LOOKUP_ELEM, &attributes, sizeof attributes) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return fail(error("looking up a key in", errno));
  }
  MapEntry entry;
  fill(entry, key.data(), values.data());
  return entry;
}

Status Map::set(Bytes key, Bytes value) const {
  TRY_STATUS(check_key(key));
  if (value.size() != spec_.value_size)
    return fail("@" + spec_.name + " has values of " + std::to_string(spec_.value_size) + " bytes, not " +
                std::to_string(value.size()));
  std::vector<uint8_t> values(copies_ * copy_size_);
  for (size_t i = 0; i < copies_; i++) std::copy(value.begin(), value.end(), values.begin() + i * copy_size_);
  bpf_attr attributes = element(fd_.get(), key.data(), values.data());
  attributes.flags = BPF_ANY;
  if (bpf_call(BPF_MAP_UPDATE_ELEM, &attributes, sizeof attributes) != 0)
    return fail(error("setting a value in", errno));
  return {};
}

Status Map::set_elements(uint32_t first, Bytes values) const {
  size_t each = spec_.value_size;
  if (!is_mapped(spec_) || each == 0 || values.size() % each != 0)
    return fail("@" + spec_.name + " is no array that can be filled at once");
  if (values.size() / each > spec_.max_entries - std::min(first, spec_.max_entries))
    return fail("@" + spec_.name + " has room for " + std::to_string(spec_.max_entries) + " elements");
  if (values.empty()) return {};
  size_t size = (each * spec_.max_entries + kPageSize - 1) / kPageSize * kPageSize;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return fail(error("mapping", errno));
  std::memcpy(static_cast<uint8_t*>(memory) + each * first, values.data(), values.size());
  ::munmap(memory, size);
  return {};
}

Status Map::remove(Bytes key) const {
  TRY_STATUS(check_key(key));
  if (is_array()) return set(key, std::vector<uint8_t>(spec_.value_size));
  bpf_attr attributes = element(fd_.get(), key.data(), nullptr);
  if (bpf_call(BPF_MAP_DELETE_ELEM, &attributes, sizeof attributes) != 0 && errno != ENOENT)
    return fail(error("removing a key from", errno));
  return {};
}

Status Map::clear() const {
  if (spec_.kind == MapKind::RingBuffer) return fail("@" + spec_.name + " is a ring buffer and has no keys");
  TRY(auto keys, all_keys());
  for (const auto& key : keys) TRY_STATUS(remove(key));
  return {};
}

}  // namespace uscope::engine::kernel
