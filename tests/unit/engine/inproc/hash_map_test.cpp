// Small maps hold exactly what they were made for, whoever comes at the same time.
#include "engine/inproc/runtime/hash_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "unit/engine/inproc/traced.h"

namespace uscope::engine::inproc {
namespace {

struct SmallMap {
  Traced traced{"let @ = hash(2); uprobe:/a:f { @[arg0] = 1; }"};
  MapInfo* info;
  uint8_t* block;

  SmallMap() : info(traced.process.map(traced.map_of("@"))), block(traced.process.shared().data()) {}
  int64_t add(uint64_t key, uint64_t flags = kOnlyNew) {
    const uint64_t value = 7;
    return HashMap(info, block, nullptr)
        .update(reinterpret_cast<uint8_t*>(&key), reinterpret_cast<const uint8_t*>(&value), flags, block);
  }
  int64_t remove(uint64_t key) {
    return HashMap(info, block, nullptr).remove(reinterpret_cast<uint8_t*>(&key));
  }
};

TEST(SmallHashMap, IsFullAtItsSizeAndHasRoomAgain) {
  SmallMap map;
  ASSERT_EQ(map.info->max_entries, 2u);
  EXPECT_EQ(map.add(1), 0);
  EXPECT_EQ(map.add(2), 0);
  EXPECT_EQ(map.add(3), kTooBig);
  EXPECT_EQ(map.add(2), kExists);
  EXPECT_EQ(map.add(2, kAnyEntry), 0);
  EXPECT_EQ(map.remove(1), 0);
  EXPECT_EQ(map.add(3), 0);
  EXPECT_EQ(map.add(1), kTooBig);
}

TEST(SmallHashMap, ManyThreadsMayBringTheSameKey) {
  SmallMap map;
  ASSERT_EQ(map.add(1), 0);
  constexpr int kThreads = 12, kRounds = 300;
  std::atomic<int> added = 0, present = 0, others = 0;
  std::barrier together(kThreads, [&]() noexcept { map.remove(2); });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; round++) {
        together.arrive_and_wait();
        const int64_t got = map.add(2);
        (got == 0 ? added : got == kExists ? present : others)++;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(others, 0);
  EXPECT_EQ(added, kRounds);
  EXPECT_EQ(present, kRounds * (kThreads - 1));
}

}  // namespace
}  // namespace uscope::engine::inproc
