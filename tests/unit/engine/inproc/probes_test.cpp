// Probes on small functions of the test itself.
#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/time.h>

#include <csignal>
#include <map>
#include <thread>

#include "event/aggregate.h"
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

// The processor's own search for the highest bit takes the place of the generator's.
TEST(Probes, FindTheBucketOfEveryNumber) {
  for (uint64_t bits = 0; bits <= 5; bits++) {
    Traced traced("uprobe:/a:f { @ = hist(arg0, " + std::to_string(bits) + "); }");
    traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
    std::map<size_t, uint64_t> expected;
    auto call = [&](uint64_t value) {
      three_times(value);
      expected[event::bucket_of_hist(int64_t(value), uint32_t(bits))]++;
    };
    for (uint64_t value = 0; value < 200; value++) call(value);
    for (uint32_t bit = 8; bit < 64; bit++)
      for (uint64_t value : {(uint64_t(1) << bit) - 1, uint64_t(1) << bit, (uint64_t(1) << bit) + 1,
                             uint64_t(3) << (bit - 1), uint64_t(0x9e3779b97f4a7c15) >> (63 - bit)})
        call(value);
    call(~uint64_t(0));
    const uint32_t map = traced.map_of("@");
    const uint32_t buckets = traced.process.map(map)->value_size / 8;
    for (uint32_t i = 0; i < buckets; i++)
      EXPECT_EQ(traced.process.total(map, 0, 8 * i), expected[i]) << bits << " bits, bucket " << i;
  }
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

// A handler that hits a probe while one is being handled: the function is called from the handler only, so
// that every hit of the handler's is either counted or dropped.
std::atomic<uint64_t> handled = 0;
void on_signal(int) {
  three_times(7);
  handled++;
}

void expect_handlers_hits_counted_or_dropped(const Traced& traced) {
  handled = 0;
  std::signal(SIGALRM, on_signal);
  const itimerval often{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  constexpr uint64_t kCalls = 20000;
  for (uint64_t i = 0; i < kCalls; i++) ASSERT_EQ(three_times(1), 3u);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  std::signal(SIGALRM, SIG_DFL);
  EXPECT_EQ(traced.total("@", 1), kCalls);
  EXPECT_EQ(traced.total("@", 7) + traced.process.dropped(), handled);
  EXPECT_GT(traced.process.dropped(), 0u);
}

constexpr const char* kCountAndRead = "uprobe:/a:f { @[arg0] = count(); @s[arg0] = str(arg0); }";

TEST(Probes, CountOrDropHitsOfSignalHandlers) {
  Traced traced(kCountAndRead);
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  expect_handlers_hits_counted_or_dropped(traced);
}

// A thread's stack lies below the engine's memory here: what comes on that is above, and nested all the same.
TEST(Probes, CountOrDropHitsOfSignalHandlersBelowTheEngine) {
  Traced traced(kCountAndRead);
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  std::thread thread([&] {
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
    expect_handlers_hits_counted_or_dropped(traced);
  });
  thread.join();
  pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
}

// A handler that never comes back leaves a hit behind, half done; later ones are handled all the same.
sigjmp_buf escape;
void jump_away(int) { siglongjmp(escape, 1); }

TEST(Probes, GoOnAfterAHandlerJumpedAway) {
  Traced traced("uprobe:/a:f { @ = count(); @s[arg0] = str(arg0); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&three_times), {});
  std::signal(SIGALRM, jump_away);
  volatile int round = 0;
  while (round < 20) {
    round = round + 1;
    if (sigsetjmp(escape, 1) != 0) continue;
    const itimerval once{{0, 0}, {0, 300 + 17 * round}};
    setitimer(ITIMER_REAL, &once, nullptr);
    for (;;) three_times(1);
  }
  std::signal(SIGALRM, SIG_DFL);
  const uint64_t before = traced.total("@");
  for (int i = 0; i < 100; i++) three_times(1);
  EXPECT_EQ(traced.total("@"), before + 100);
}

TEST(Probes, RunWithoutASite) {
  Traced traced("BEGIN { @ = count(); @x = 5; }");
  traced.process.run(0);
  EXPECT_EQ(traced.process.total(traced.map_of("@")), 1u);
  EXPECT_EQ(traced.process.total(traced.map_of("@x")), 5u);
}

}  // namespace
}  // namespace uscope::engine::inproc
