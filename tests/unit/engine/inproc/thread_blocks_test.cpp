// Numbers of threads that have ended: what they counted and recorded stays.
#include "engine/inproc/runtime/thread_blocks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "unit/engine/inproc/traced.h"

namespace uscope::engine::inproc {
namespace {

[[gnu::noinline, gnu::noipa]] uint64_t work(uint64_t a, uint64_t b) {
  asm volatile("nop; nop; nop; nop; nop; nop");
  return a + b;
}

TEST(ThreadBlocks, AreGivenBackWithWhatIsInThem) {
  Traced traced("uprobe:/a:f { @ = count(); @by[arg0] = sum(arg1); printf(\"%d\", arg0); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&work), {});
  ThreadBlocks blocks(traced.process.code().shared_plan(), traced.process.shared());
  EXPECT_EQ(blocks.in_use(), 0u);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 5; i++)
    threads.emplace_back([i] {
      for (uint64_t n = 0; n < 10; n++) work(i, n);
    });
  for (auto& each : threads) each.join();
  const auto by_process = blocks.by_process();
  ASSERT_EQ(by_process.size(), 1u);
  ASSERT_TRUE(by_process.contains(uint32_t(getpid())));
  const std::vector<uint32_t> numbers = by_process.at(uint32_t(getpid()));
  ASSERT_FALSE(numbers.empty());
  EXPECT_EQ(numbers.front(), 1u);  // the lowest; the first is uscope's own
  EXPECT_EQ(blocks.in_use(), numbers.size());

  blocks.give_back(numbers);
  EXPECT_EQ(blocks.in_use(), 0u);
  EXPECT_TRUE(blocks.by_process().empty());
  EXPECT_EQ(traced.total("@"), 50u);
  for (uint64_t key = 0; key < 5; key++) EXPECT_EQ(traced.total("@by", key), 45u);
  size_t records = 0;
  while (traced.ring.read([&](Bytes) { records++; }, true) != 0) {
  }
  EXPECT_EQ(records, 50u);
  // Whole chunks go back to the pool.
  traced.ring.read([](Bytes) {}, true);
  const SharedPlan& plan = traced.process.code().shared_plan();
  const auto* chunks =
      reinterpret_cast<const ChunkHeader*>(traced.process.shared().data() + plan.maps[0].buckets);
  for (uint32_t i = 0; i < traced.process.header().chunks_used; i++)
    EXPECT_EQ(chunks[i].state, uint32_t(kChunkFree));
}

TEST(ThreadBlocks, LeaveOthersAlone) {
  Traced traced("uprobe:/a:f { @ = count(); }");
  ThreadBlocks blocks(traced.process.code().shared_plan(), traced.process.shared());
  const std::vector<uint32_t> nonsense = {0, 3, kMostThreads, 0xffffffff};
  blocks.give_back(nonsense);
  EXPECT_EQ(blocks.in_use(), 0u);
  EXPECT_EQ(traced.process.header().free_threads[0] & 1, 0u);  // uscope's own
}

}  // namespace
}  // namespace uscope::engine::inproc
