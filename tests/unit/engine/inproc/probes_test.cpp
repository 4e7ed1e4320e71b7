// Probes on small functions of the test itself.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "unit/engine/inproc/traced.h"

namespace uscope::engine::inproc {
namespace {

// Volatile operands and no inlining: each is a real function, called as compiled.
[[gnu::noinline, gnu::noipa]] uint64_t three_times(uint64_t a) {
  asm volatile("nop; nop; nop; nop; nop; nop");
  return 3 * a;
}
[[gnu::noinline, gnu::noipa]] uint64_t six_arguments(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                                     uint64_t e, uint64_t f) {
  asm volatile("nop; nop; nop; nop; nop; nop");
  return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f;
}

TEST(Probes, CountCalls) {
  Traced traced("uprobe:/a:f { @ = count(); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  for (uint64_t i = 0; i < 1000; i++) ASSERT_EQ(three_times(i), 3 * i);
  traced.process.unpatch();
  three_times(1);
  EXPECT_EQ(traced.process.total(traced.map_of("@")), 1000u);
  EXPECT_EQ(traced.process.dropped(), 0u);
}

TEST(Probes, SeeTheirArguments) {
  Traced traced(
      "uprobe:/a:f { @a = sum(arg0); @b = sum(arg1); @c = sum(arg2); @d = sum(arg3); @e = sum(arg4); @f = "
      "sum(arg5); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&six_arguments), {});
  EXPECT_EQ(six_arguments(1, 20, 300, 4000, 50000, 600000), 1 + 40 + 900 + 20000 + 350000 + 6600000u);
  EXPECT_EQ(traced.process.total(traced.map_of("@a")), 1u);
  EXPECT_EQ(traced.process.total(traced.map_of("@b")), 20u);
  EXPECT_EQ(traced.process.total(traced.map_of("@c")), 300u);
  EXPECT_EQ(traced.process.total(traced.map_of("@d")), 4000u);
  EXPECT_EQ(traced.process.total(traced.map_of("@e")), 50000u);
  EXPECT_EQ(traced.process.total(traced.map_of("@f")), 600000u);
}

TEST(Probes, SeeTheResult) {
  Traced traced("uretprobe:/a:f { @ = sum(retval); }");
  traced.process.patch_exit(reinterpret_cast<void*>(&three_times), {});
  EXPECT_EQ(three_times(14), 42u);
  EXPECT_EQ(traced.process.total(traced.map_of("@")), 42u);
}

TEST(Probes, MakeHistograms) {
  Traced traced("uprobe:/a:f { @ = hist(arg0); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  for (uint64_t value : {0, 1, 5, 6, 1000}) three_times(value);
  const uint32_t map = traced.map_of("@");
  EXPECT_EQ(traced.process.total(map, 0, 8 * 1), 1u);   // 0
  EXPECT_EQ(traced.process.total(map, 0, 8 * 2), 1u);   // 1
  EXPECT_EQ(traced.process.total(map, 0, 8 * 4), 2u);   // [4, 8)
  EXPECT_EQ(traced.process.total(map, 0, 8 * 11), 1u);  // [512, 1024)
}

TEST(Probes, CountByKey) {
  Traced traced("uprobe:/a:f { @[arg0] = count(); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  for (int round = 0; round < 3; round++)
    for (uint64_t key = 0; key < 1000; key++) three_times(key * 4096);
  for (uint64_t key = 0; key < 1000; key++)
    EXPECT_EQ(traced.process.total(traced.map_of("@"), key * 4096), 3u);
}

TEST(Probes, CountInManyThreads) {
  Traced traced("uprobe:/a:f { @ = count(); @by[arg0] = count(); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  for (int round = 0; round < 10; round++) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 50; i++)
      threads.emplace_back([] {
        for (uint64_t call = 0; call < 200; call++) three_times(call % 10);
      });
    for (std::thread& each : threads) each.join();
  }
  EXPECT_EQ(traced.process.total(traced.map_of("@")), 10 * 50 * 200u);
  for (uint64_t key = 0; key < 10; key++)
    EXPECT_EQ(traced.process.total(traced.map_of("@by"), key), 10 * 50 * 20u);
  EXPECT_EQ(traced.process.dropped(), 0u);
}

TEST(Probes, AreOffInAForkedChild) {
  Traced traced("uprobe:/a:f { @ = count(); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  three_times(1);
  traced.process.wipe_private();
  EXPECT_EQ(three_times(5), 15u);
  EXPECT_EQ(traced.process.total(traced.map_of("@")), 1u);
}

TEST(Probes, RunWithoutASite) {
  Traced traced("BEGIN { @ = count(); @x = 5; }");
  traced.process.run(0);
  EXPECT_EQ(traced.process.total(traced.map_of("@")), 1u);
  EXPECT_EQ(traced.process.total(traced.map_of("@x")), 5u);
}

}  // namespace
}  // namespace uscope::engine::inproc
