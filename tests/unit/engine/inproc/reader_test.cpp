// What the reader outside sees of maps and records.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "engine/inproc/runtime/hash_map.h"
#include "unit/engine/inproc/traced.h"

namespace uscope::engine::inproc {
namespace {

[[gnu::noinline, gnu::noipa]] uint64_t work(uint64_t a, uint64_t b) {
  asm volatile("nop; nop; nop; nop; nop; nop");
  return a + b;
}
const void* const kWork = reinterpret_cast<void*>(&work);

std::vector<uint8_t> bytes_of(uint64_t number) {
  std::vector<uint8_t> out(8);
  std::memcpy(out.data(), &number, 8);
  return out;
}
uint64_t number_in(Bytes bytes, size_t offset = 0) {
  uint64_t out = 0;
  std::memcpy(&out, bytes.data() + offset, 8);
  return out;
}

TEST(Reader, SeesEntriesOfAllThreads) {
  Traced traced("uprobe:/a:f { @[arg0] = sum(arg1); }");
  traced.process.patch_entry(kWork, {});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([] {
      for (uint64_t n = 0; n < 100; n++) work(n % 5, n);
    });
  for (auto& each : threads) each.join();
  std::map<uint64_t, uint64_t> sums;
  ASSERT_TRUE(traced.store.for_each_entry(traced.map_of("@"), [&](const MapEntry& entry) {
    for (const auto& value : entry.values) sums[number_in(entry.key)] += number_in(value);
  }));
  ASSERT_EQ(sums.size(), 5u);
  for (uint64_t key = 0; key < 5; key++) EXPECT_EQ(sums[key], 8 * (20 * key + 5 * 190));
}

TEST(Reader, SetsFindsAndRemoves) {
  Traced traced("uprobe:/a:f { @[arg0] = arg1; }");
  const uint32_t map = traced.map_of("@");
  traced.process.patch_entry(kWork, {});
  work(7, 70);
  ASSERT_TRUE(traced.store.set_entry(map, bytes_of(8), bytes_of(80)));
  auto seven = traced.store.find_entry(map, bytes_of(7)), eight = traced.store.find_entry(map, bytes_of(8));
  ASSERT_TRUE(seven && *seven && eight && *eight);
  EXPECT_EQ(number_in((*seven)->values[0]), 70u);
  EXPECT_EQ(number_in((*eight)->values[0]), 80u);
  ASSERT_TRUE(traced.store.remove_entry(map, bytes_of(7)));
  EXPECT_FALSE(traced.store.find_entry(map, bytes_of(7))->has_value());
  ASSERT_TRUE(traced.store.clear(map));
  EXPECT_FALSE(traced.store.find_entry(map, bytes_of(8))->has_value());
  work(7, 71);
  EXPECT_EQ(number_in((*traced.store.find_entry(map, bytes_of(7)))->values[0]), 71u);
}

TEST(Reader, GivesNoOldValueToANewKey) {
  Traced traced("config = { max_map_keys = 1 } uprobe:/a:f { @[arg0] = count(); }");
  traced.process.patch_entry(kWork, {});
  for (int i = 0; i < 5; i++) work(1, 0);
  ASSERT_TRUE(traced.store.clear(traced.map_of("@")));
  work(2, 0);
  EXPECT_EQ(traced.total("@", 2), 1u);
}

TEST(Reader, CountsKeysThatFindNoRoom) {
  Traced traced("config = { max_map_keys = 10 } uprobe:/a:f { @[arg0] = arg1; }");
  traced.process.patch_entry(kWork, {});
  for (uint64_t i = 0; i < 15; i++) work(i, i);
  size_t entries = 0, errors = 0;
  ASSERT_TRUE(traced.store.for_each_entry(traced.map_of("@"), [&](const MapEntry&) { entries++; }));
  traced.ring.read([&](Bytes record) { errors += number_in(record, 8) == uint64_t(kTooBig); }, true);
  EXPECT_EQ(entries, 10u);
  EXPECT_EQ(errors, 5u);
}

TEST(Reader, HandsRecordsOverInOrder) {
  Traced traced("uprobe:/a:f { printf(\"%d %d\", arg0, arg1); }");
  traced.process.patch_entry(kWork, {});
  constexpr uint64_t kThreads = 4, kEach = 20000;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> turn = 0;
  for (uint64_t t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (uint64_t n = 0; n < kEach; n++) work(t, turn.fetch_add(1));
    });
  std::vector<uint64_t> next(kThreads), all;
  uint64_t last[kThreads] = {};
  bool is_ordered = true;
  auto take = [&](Bytes record) {
    const uint64_t thread = number_in(record, 8), number = number_in(record, 16);
    is_ordered = is_ordered && (next[thread]++ == 0 || number > last[thread]);
    last[thread] = number;
    all.push_back(number);
  };
  while (all.size() < kThreads * kEach / 2) traced.ring.read(take);
  for (auto& each : threads) each.join();
  traced.ring.read(take, true);
  EXPECT_TRUE(is_ordered);
  ASSERT_EQ(all.size(), kThreads * kEach);
  // The number was drawn before the hit: a thread can be overtaken between the two, but not by much.
  size_t early = 0;
  for (size_t i = 1; i < all.size(); i++) early += all[i] + 100 < all[i - 1];
  EXPECT_LT(early, all.size() / 1000);
  std::ranges::sort(all);
  for (uint64_t i = 0; i < all.size(); i++) ASSERT_EQ(all[i], i);
}

TEST(Reader, GoesOnWhenTheRingWasFull) {
  Traced traced("uprobe:/a:f { printf(\"%d\", arg0); }");
  traced.process.patch_entry(kWork, {});
  traced.process.map(0)->element_count = 8;  // or it would take 128 MB
  const uint64_t much = uint64_t(kChunkBytes / 32) * 8 + 1000;
  for (uint64_t i = 0; i < much; i++) work(i, 0);
  uint64_t got = 0;
  traced.ring.read([&](Bytes) { got++; }, true);
  EXPECT_EQ(got + traced.process.total(1), much);  // map 1 counts the lost ones
  EXPECT_GT(traced.process.total(1), 0u);
  work(1, 0);
  traced.ring.read([&](Bytes) { got++; }, true);
  EXPECT_EQ(got + traced.process.total(1), much + 1);
}

TEST(Reader, SurvivesSpoiledChunks) {
  Traced traced("uprobe:/a:f { printf(\"%d\", arg0); }");
  traced.process.patch_entry(kWork, {});
  work(1, 0);
  auto* header =
      reinterpret_cast<ChunkHeader*>(traced.process.shared().data() + traced.process.map(0)->buckets);
  header->committed = 0xffffff00;
  traced.process.header().chunks_used = 0xffffffff;
  traced.process.header().threads_used = 0xffffffff;
  size_t got = traced.ring.read([](Bytes) {}, true);
  EXPECT_EQ(got, 0u);
  EXPECT_GT(traced.ring.spoiled_chunks(), 0u);
  traced.store.losses();
}

}  // namespace
}  // namespace uscope::engine::inproc
