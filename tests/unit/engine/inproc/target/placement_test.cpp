// Where uscope's memory may lie: within reach, and out of the way of what grows.
#include "engine/inproc/target/placement.h"

#include <gtest/gtest.h>

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kMb = uint64_t(1) << 20, kGb = uint64_t(1) << 30;

process::Maps maps_of(std::string_view text) {
  auto maps = process::Maps::parse(text);
  EXPECT_TRUE(maps);
  return std::move(*maps);
}

bool is_in_reach(ProcessAddr start, uint64_t size, AddressSpan reach) {
  const uint64_t low = std::min(start.value, reach.start.value);
  const uint64_t high = std::max(start.value + size, reach.end().value);
  return high - low < 2 * kGb;
}

const AddressSpan kProgram{{0x555555554000}, 0x1000};

TEST(Placement, StaysInReachAndBesidesEverything) {
  const auto maps = maps_of(
      "555555554000-555555555000 r-xp 00000000 fe:00 1 /bin/app\n"
      "555555756000-555555777000 rw-p 00000000 00:00 0 [heap]\n"
      "7ffff7dc0000-7ffff7f00000 r-xp 00000000 fe:00 2 /lib/libc.so\n"
      "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n");
  auto place = find_room(maps, kProgram, kMb);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->value % 4096, 0u);
  EXPECT_TRUE(is_in_reach(*place, kMb, kProgram));
  for (const process::Mapping& mapping : maps.all())
    EXPECT_TRUE(*place + kMb <= mapping.start || *place >= mapping.end);
  // Not where the heap will grow to.
  EXPECT_FALSE(*place >= ProcessAddr{0x555555777000} && *place < ProcessAddr{0x555555777000 + 512 * kMb});
}

TEST(Placement, WhatIsPromisedIsTaken) {
  const auto maps = maps_of("555555554000-555555555000 r-xp 00000000 fe:00 1 /bin/app\n");
  auto first = find_room(maps, kProgram, kMb);
  ASSERT_TRUE(first);
  const std::vector<AddressSpan> taken = {{*first, kMb}};
  auto second = find_room(maps, kProgram, kMb, taken);
  ASSERT_TRUE(second);
  EXPECT_TRUE(*second + kMb <= *first || *second >= *first + kMb);
}

TEST(Placement, AProgramAtTheBottomKeepsRoomForItsHeap) {
  const auto maps = maps_of(
      "00400000-00500000 r-xp 00000000 fe:00 1 /bin/app\n"
      "00700000-00721000 rw-p 00000000 00:00 0 [heap]\n");
  const AddressSpan text{{0x400000}, 0x100000};
  auto place = find_room(maps, text, kMb);
  ASSERT_TRUE(place);
  EXPECT_TRUE(is_in_reach(*place, kMb, text));
  EXPECT_TRUE(*place + kMb <= text.start || place->value >= 0x721000 + 64 * kMb);
}

TEST(Placement, AFullNeighbourhoodHasNone) {
  const auto maps = maps_of(
      "100000000-180000000 rw-p 00000000 00:00 0 \n"
      "180000000-180001000 r-xp 00000000 fe:00 1 /bin/app\n"
      "180001000-200001000 rw-p 00000000 00:00 0 \n");
  EXPECT_FALSE(find_room(maps, {{0x180000000}, 0x1000}, kMb));
}

TEST(Placement, BelowAllStacksAndFarFromTheProgram) {
  const auto maps = maps_of(
      "555555554000-555555555000 r-xp 00000000 fe:00 1 /bin/app\n"
      "555555756000-555555777000 rw-p 00000000 00:00 0 [heap]\n"
      "7ffff7dc0000-7ffff7f00000 r-xp 00000000 fe:00 2 /lib/libc.so\n");
  for (uint64_t random : {uint64_t(0), uint64_t(0x123456789abcdef), ~uint64_t(0)}) {
    auto place = find_room_below_stacks(maps, kGb, random);
    ASSERT_TRUE(place);
    EXPECT_EQ(place->value % 4096, 0u);
    EXPECT_LE(place->value + kGb, 0x555555554000 - 4 * kGb);
    EXPECT_GE(place->value, 0x555555554000 - 200 * kGb);
  }
}

TEST(Placement, BelowStacksThatAreGivenFromTheBottomUp) {
  const auto maps = maps_of(
      "2aaaaaaab000-2aaaaaaac000 r-xp 00000000 fe:00 2 /lib/libc.so\n"
      "555555554000-555555555000 r-xp 00000000 fe:00 1 /bin/app\n");
  auto place = find_room_below_stacks(maps, kGb, 0);
  ASSERT_TRUE(place);
  EXPECT_LT(place->value + kGb, 0x2aaaaaaab000u);
}

TEST(Placement, WhatLiesBelowTheStacksIsNotOverlapped) {
  const auto taken = maps_of(
      "555400000000-555440000000 rw-p 00000000 00:00 0 \n"
      "555440100000-555455554000 rw-p 00000000 00:00 0 \n");
  auto place = find_room_below_stacks(taken, kGb, 0);
  ASSERT_TRUE(place);
  EXPECT_LT(place->value + kGb, 0x555400000000u);
  EXPECT_FALSE(find_room_below_stacks(maps_of("100000000-555500000000 rw-p 00000000 00:00 0 \n"), kGb, 0));
}

}  // namespace
}  // namespace uscope::engine::inproc
