#include "engine/inproc/target/placement.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kReach = (uint64_t(1) << 31) - (uint64_t(1) << 20);
constexpr uint64_t kLowest = uint64_t(1) << 20;
constexpr uint64_t kHighest = 0x7ffffffff000;
constexpr uint64_t kDistance = uint64_t(64) << 10;     // unmapped space on both sides
constexpr uint64_t kGrowth = uint64_t(512) << 20;      // what heap and stack keep, if that leaves us room
constexpr uint64_t kLeastGrowth = uint64_t(64) << 20;  // ... and what they keep in any case

// x86-64: the kernel puts position-independent programs, with their heap behind them, from two thirds of the
// address space on. All that mmap gives is above, thread stacks too; where it goes upwards (`ulimit -s
// unlimited`), it begins at a third.
constexpr uint64_t kPrograms = 0x555555554000;
constexpr uint64_t kUpwards = 0x2aaaaaaaa000;
// What a program wants near its code is left to it. As far below as we go, no sanitizer has its shadow
// memory, which a command may still have to map.
constexpr uint64_t kNearProgram = uint64_t(4) << 30;
constexpr uint64_t kSpread = uint64_t(64) << 30;

struct Occupied {
  uint64_t start, end;
  bool grows_up, grows_down;
};

bool is_in_reach(uint64_t start, uint64_t size, AddressSpan reach) {
  const uint64_t low = std::min(start, reach.start.value);
  const uint64_t high = std::max(start + size, reach.end().value);
  return high - low <= kReach;
}

std::vector<Occupied> occupied(const process::Maps& maps, std::span<const AddressSpan> taken) {
  std::vector<Occupied> all;
  for (const process::Mapping& mapping : maps.all()) {
    if (mapping.start.value >= kHighest) continue;
    const std::string_view path = mapping.path_as_shown;
    all.push_back({mapping.start.value, mapping.end.value, path == "[heap]", path == "[stack]"});
  }
  for (const AddressSpan& span : taken) all.push_back({span.start.value, span.end().value, false, false});
  std::ranges::sort(all, {}, &Occupied::start);
  // A program that has not used its heap yet gets it behind its data, which nothing in the maps shows.
  if (std::ranges::none_of(all, &Occupied::grows_up))
    for (Occupied& mapping : all) mapping.grows_up = true;
  return all;
}

std::optional<ProcessAddr> find_with(const std::vector<Occupied>& all, AddressSpan reach, uint64_t size,
                                     uint64_t growth) {
  std::optional<uint64_t> best;
  auto consider = [&](uint64_t start) {
    if (!is_in_reach(start, size, reach)) return;
    auto distance = [&](uint64_t at) {
      return at > reach.start.value ? at - reach.start.value : reach.start.value - at;
    };
    if (!best || distance(start) < distance(*best)) best = start;
  };
  uint64_t free_from = kLowest;
  for (size_t i = 0; i <= all.size(); ++i) {
    const bool behind_heap = i > 0 && all[i - 1].grows_up;
    const uint64_t low = free_from + (behind_heap ? growth : kDistance);
    const uint64_t next = i < all.size() ? all[i].start : kHighest;
    const uint64_t keep = i < all.size() && all[i].grows_down ? growth : kDistance;
    if (next > keep + size && next - keep - size >= low) {
      consider((low + kPage - 1) & ~(kPage - 1));
      consider((next - keep - size) & ~(kPage - 1));
    }
    if (i < all.size()) free_from = std::max(free_from, all[i].end);
  }
  return best ? std::optional(ProcessAddr{*best}) : std::nullopt;
}

}  // namespace

std::optional<ProcessAddr> find_room(const process::Maps& maps, AddressSpan reach, uint64_t size,
                                     std::span<const AddressSpan> taken) {
  const std::vector<Occupied> all = occupied(maps, taken);
  if (auto found = find_with(all, reach, size, kGrowth)) return found;
  return find_with(all, reach, size, kLeastGrowth);
}

std::optional<ProcessAddr> find_room_below_stacks(const process::Maps& maps, uint64_t size, uint64_t random) {
  const bool goes_upwards = std::ranges::any_of(maps.all(), [](const process::Mapping& mapping) {
    return mapping.kind == process::MappingKind::File && mapping.perms.execute &&
           mapping.start.value >= kUpwards && mapping.start.value < kPrograms;
  });
  const uint64_t end = (goes_upwards ? kUpwards : kPrograms) - kNearProgram;
  const uint64_t lowest = end - 2 * kSpread;
  if (size > kSpread - kDistance) return std::nullopt;
  uint64_t start = (end - size - random % kSpread) & ~(kPage - 1);
  for (size_t i = maps.all().size(); i-- > 0;) {
    const process::Mapping& mapping = maps.all()[i];
    if (mapping.start.value >= start + size + kDistance) continue;
    if (mapping.end.value + kDistance <= start) break;
    if (mapping.start.value < lowest + kDistance + size) return std::nullopt;
    start = mapping.start.value - kDistance - size;
  }
  return start >= lowest ? std::optional(ProcessAddr{start}) : std::nullopt;
}

}  // namespace uscope::engine::inproc
