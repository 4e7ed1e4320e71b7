// Entries and exits paired by the engine itself, on functions of the test.
#include "codegen/pairing.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <time.h>

#include <thread>

#include "unit/engine/inproc/traced.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kMillisecond = 1000000;

void wait_for(uint64_t milliseconds) {
  const timespec time{0, long(milliseconds * kMillisecond)};
  nanosleep(&time, nullptr);
}

jmp_buf escape;
volatile int where_to_jump = -1;

// Both with a RET of their own at the end, and one only.
[[gnu::noinline, gnu::noipa]] uint64_t recurse(uint64_t depth) {
  uint64_t sum = depth;
  if (int64_t(depth) == where_to_jump) longjmp(escape, 1);
  if (depth > 0) sum += recurse(depth - 1);
  asm volatile("nop; nop; nop; nop; nop" : "+r"(sum));
  return sum;
}
[[gnu::noinline, gnu::noipa]] uint64_t waits(uint64_t milliseconds) {
  wait_for(milliseconds);
  asm volatile("nop; nop; nop; nop; nop" : "+r"(milliseconds));
  return milliseconds;
}

// A script's return probe with the hidden entry that the session would add.
struct Timed {
  explicit Timed(const char* script) : compiled(compile_script(script).value()) {
    codegen::Pairing pairing(compiled.program, true);
    enter = pairing.enter({}).value();
    leave = pairing.leave(0, {}).value();
    counters = *pairing.counters();
    process.emplace(compiled.program);
  }
  template <typename Function>
  void patch(Function* function, uint64_t cookie = 0) {
    process->patch(reinterpret_cast<void*>(function), {{enter, cookie}}, {{leave, cookie}});
  }
  uint64_t total(const std::string& name) const {
    for (const event::MapPlan& each : compiled.plan.maps)
      if (each.name == name) return process->total(each.program_map);
    abort();
  }
  uint64_t counted(codegen::Pairing::Counter counter) const { return process->total(counters, counter); }

  codegen::Compiled compiled;
  uint32_t enter = 0, leave = 0, counters = 0;
  std::optional<OwnProcess> process;
};

constexpr const char* kCountAndSum = "uretprobe:/a:f { @n = count(); @ns = sum(took); }";

TEST(Pairing, TimesACall) {
  Timed timed(kCountAndSum);
  timed.patch(&waits);
  waits(20);
  EXPECT_EQ(timed.total("@n"), 1u);
  EXPECT_GE(timed.total("@ns"), 20 * kMillisecond);
  EXPECT_LT(timed.total("@ns"), 2000 * kMillisecond);
}

TEST(Pairing, TimesEachDepthOfARecursion) {
  Timed timed(kCountAndSum);
  timed.patch(&recurse);
  EXPECT_EQ(recurse(1000), 1000u * 1001 / 2);
  EXPECT_EQ(timed.total("@n"), 1001u);
  EXPECT_EQ(timed.counted(codegen::Pairing::kAbandoned), 0u);
  EXPECT_EQ(timed.counted(codegen::Pairing::kUnpaired), 0u);
}

// More calls than there is room for: the outermost ones are forgotten, and said to be.
TEST(Pairing, CountsWhatItForgets) {
  Timed timed(kCountAndSum);
  timed.patch(&recurse);
  constexpr uint64_t kDepth = 3 * kCallWays << kCallSetBits;
  recurse(kDepth);
  EXPECT_LT(timed.total("@n"), kDepth + 1);
  EXPECT_GE(timed.total("@n"), uint64_t(kCallWays) << (kCallSetBits - 1));
  EXPECT_EQ(timed.total("@n") + timed.counted(codegen::Pairing::kUnpaired), kDepth + 1);
  EXPECT_EQ(timed.counted(codegen::Pairing::kAbandoned), timed.counted(codegen::Pairing::kUnpaired));
  recurse(10);
  EXPECT_EQ(timed.total("@n") + timed.counted(codegen::Pairing::kUnpaired), kDepth + 12);
}

TEST(Pairing, DropsAndCountsAbandonedCalls) {
  Timed timed(kCountAndSum);
  timed.patch(&recurse);
  where_to_jump = 3;
  if (setjmp(escape) == 0) recurse(9);  // 9 to 3: seven entries
  where_to_jump = -1;
  wait_for(20);
  recurse(9);
  EXPECT_EQ(timed.total("@n"), 10u);
  EXPECT_EQ(timed.counted(codegen::Pairing::kAbandoned), 7u);
  EXPECT_LT(timed.total("@ns"), 20 * kMillisecond);
}

TEST(Pairing, ReportsNoExitWithoutItsEntry) {
  Timed timed(kCountAndSum);
  timed.process->patch_exit(reinterpret_cast<void*>(&waits), {timed.leave, 0});
  waits(1);
  EXPECT_EQ(timed.total("@n"), 0u);
  EXPECT_EQ(timed.counted(codegen::Pairing::kUnpaired), 1u);
}

TEST(Pairing, TellsThreadsApart) {
  Timed timed(kCountAndSum);
  timed.patch(&waits);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([] {
      for (int round = 0; round < 20; round++) waits(1);
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(timed.total("@n"), 160u);
  EXPECT_GE(timed.total("@ns"), 160 * kMillisecond);
}

// Where the processor's ticks do not serve, the kernel is asked.
TEST(Pairing, WorksWithoutTicks) {
  Timed timed(kCountAndSum);
  timed.process->header().clock.uses_ticks = 0;
  timed.patch(&waits);
  waits(20);
  EXPECT_EQ(timed.total("@n"), 1u);
  EXPECT_GE(timed.total("@ns"), 20 * kMillisecond);
  EXPECT_LT(timed.total("@ns"), 2000 * kMillisecond);
}

}  // namespace
}  // namespace uscope::engine::inproc
