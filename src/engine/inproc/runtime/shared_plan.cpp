#include "engine/inproc/runtime/shared_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace uscope::engine::inproc {
namespace {

using codegen::MapKind;
using codegen::MapSpec;

constexpr uint64_t kPage = 4096;
// What shared memory may take of the address space; the number of threads is lowered to stay below.
constexpr uint64_t kMostForThreads = uint64_t(64) << 30;
constexpr uint64_t kMostForMaps = uint64_t(64) << 30;
constexpr uint32_t kFewestThreads = 64;
constexpr uint32_t kMostMaps = 4096;
// Threads keep some free elements of large maps for themselves; these are on top of what the map may hold.
constexpr uint32_t kSharedFreely = 1024, kFreeBatch = 8, kSpareElements = 512;
static_assert(kMostKeepers * 2 * kFreeBatch <= kSpareElements);
// In a small map: for threads that prepare an element each and find, when they link it, that another was
// first.
constexpr uint32_t kFewSpareElements = 8;

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

Kind kind_of(MapKind kind) {
  switch (kind) {
    case MapKind::Hash:
      return Kind::Hash;
    case MapKind::LruHash:
      return Kind::LruHash;
    case MapKind::PerCpuHash:
      return Kind::PerThreadHash;
    case MapKind::PerCpuLruHash:
      return Kind::PerThreadLruHash;
    case MapKind::Array:
      return Kind::Array;
    case MapKind::PerCpuArray:
      return Kind::PerThreadArray;
    case MapKind::RingBuffer:
      return Kind::Ring;
  }
  return Kind::Hash;
}

class Planner {
 public:
  explicit Planner(const codegen::Program& program) : program_(program) {}

  Result<SharedPlan> run() {
    if (program_.maps.size() > kMostMaps) return fail("the script has too many maps");
    lives_ = kMapInfosOffset + program_.maps.size() * sizeof(MapInfo);
    at_ = round_up(lives_ + program_.maps.size() * sizeof(MapLive), kPage);
    for (uint32_t i = 0; i < program_.maps.size(); i++) add(program_.maps[i], i);
    if (at_ > kMostForMaps)
      return fail("the script's maps are too large; make them smaller, by fewer keys or shorter values");
    plan_.thread_stride = round_up(in_block_, in_block_ > kPage / 2 ? kPage : 2 * kCacheLine);
    plan_.thread_limit = kMostThreads;
    while (plan_.thread_limit > kFewestThreads && plan_.thread_limit * plan_.thread_stride > kMostForThreads)
      plan_.thread_limit /= 2;
    if (plan_.thread_limit * plan_.thread_stride > 16 * kMostForThreads)
      return fail("the script's maps are too large; make them smaller, by fewer keys or shorter values");
    plan_.thread_blocks = round_up(at_, kPage);
    plan_.bytes = round_up(plan_.thread_blocks + plan_.thread_limit * plan_.thread_stride, kPage);
    for (MapInfo& map : plan_.maps) {
      map.thread_blocks = plan_.thread_blocks;
      map.thread_stride = plan_.thread_stride;
      map.thread_limit = plan_.thread_limit;
    }
    return std::move(plan_);
  }

 private:
  uint64_t take(uint64_t bytes) {
    at_ = round_up(at_, bytes >= kPage ? kPage : 2 * kCacheLine);
    const uint64_t start = at_;
    at_ += std::min(bytes, kMostForMaps);
    return start;
  }
  uint64_t take_in_block(uint64_t bytes) {
    const uint64_t start = in_block_;
    in_block_ = round_up(in_block_ + std::min(bytes, 16 * kMostForThreads), 8);
    return start;
  }

  void add(const MapSpec& spec, uint32_t number) {
    // codegen's scratch memory. A script's own @scratch is no array of several entries.
    if (spec.name == "scratch" && spec.kind == MapKind::PerCpuArray && spec.max_entries > 1)
      plan_.scratch = number;
    MapInfo map{};
    map.self = kMapInfosOffset + number * sizeof(MapInfo);
    map.live = lives_ + number * sizeof(MapLive);
    map.kind = kind_of(spec.kind);
    map.number = number;
    map.key_size = spec.key_size;
    map.value_size = spec.value_size;
    map.value_stride = uint32_t(round_up(std::max(spec.value_size, 1u), 8));
    map.max_entries = std::max(spec.max_entries, 1u);
    switch (map.kind) {
      case Kind::Ring:
        map.element_count = kChunkCount;
        map.buckets = take(uint64_t(kChunkCount) * sizeof(ChunkHeader));
        map.elements = take(uint64_t(kChunkCount) * kChunkBytes);
        break;
      case Kind::Array:
        map.elements = take(uint64_t(map.max_entries) * map.value_stride);
        break;
      case Kind::PerThreadArray:
        map.thread_values = take_in_block(uint64_t(map.max_entries) * map.value_stride);
        break;
      default:
        add_hash(map);
    }
    plan_.maps.push_back(map);
  }

  void add_hash(MapInfo& map) {
    const bool per_thread = map.kind == Kind::PerThreadHash || map.kind == Kind::PerThreadLruHash;
    const bool shares = map.max_entries >= kSharedFreely && map.number < std::size(ThreadBlock{}.kept);
    map.free_batch = shares ? kFreeBatch : 1;
    map.max_entries = std::min(map.max_entries, uint32_t(1) << 28);
    const bool evicts = map.kind == Kind::LruHash || map.kind == Kind::PerThreadLruHash;
    map.element_count = map.max_entries + (shares ? kSpareElements : evicts ? 0 : kFewSpareElements);
    const uint64_t size =
        sizeof(Element) + round_up(map.key_size, 8) + (per_thread ? 0 : uint64_t(map.value_stride));
    map.element_size = uint32_t(size <= 32 ? 32 : size <= 64 ? 64 : round_up(size, 16));
    const uint32_t buckets = std::bit_ceil(map.max_entries);
    map.bucket_mask = buckets - 1;
    map.buckets = take(uint64_t(buckets) * sizeof(Bucket));
    map.elements = take(uint64_t(map.element_count) * map.element_size);
    if (per_thread) map.thread_values = take_in_block(uint64_t(map.element_count) * map.value_stride);
  }

  const codegen::Program& program_;
  SharedPlan plan_;
  uint64_t at_ = 0;
  uint64_t lives_ = 0;
  uint64_t in_block_ = sizeof(ThreadBlock);
};

}  // namespace

Result<SharedPlan> SharedPlan::make(const codegen::Program& program) { return Planner(program).run(); }

void SharedPlan::write(std::span<uint8_t> shared) const {
  SharedHeader header{};
  header.magic = kAlive;
  // The first is uscope's own.
  for (uint32_t i = 1; i < thread_limit; i++) header.free_threads[i / 64] |= uint64_t(1) << i % 64;
  std::memcpy(shared.data(), &header, sizeof header);
  if (!maps.empty()) std::memcpy(shared.data() + kMapInfosOffset, maps.data(), maps.size() * sizeof(MapInfo));
}

}  // namespace uscope::engine::inproc
