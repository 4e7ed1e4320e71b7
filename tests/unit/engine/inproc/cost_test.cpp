// What a hit costs over the untraced call. Prints; only gross regressions fail, since the machine may be
// busy. The figures of record come from bench/.
#include <gtest/gtest.h>
#include <time.h>

#include <thread>

#include "unit/engine/inproc/emulated_gate.h"
#include "unit/engine/inproc/traced.h"

namespace uscope::engine::inproc {
namespace {

[[gnu::noinline, gnu::noipa]] uint64_t tiny(uint64_t a) {
  asm volatile("nop; nop; nop; nop; nop");
  return a + 1;
}
[[gnu::noinline, gnu::noipa]] uint64_t tiny_text(const char* text) {
  asm volatile("nop; nop; nop; nop; nop");
  return uint64_t(text);
}

double cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

template <typename Call>
double ns_per_call(uint64_t rounds, Call call) {
  double best = 1e9;
  for (int tries = 0; tries < 5; tries++) {
    const double begin = cpu_ns();
    for (uint64_t i = 0; i < rounds; i++) call(i);
    best = std::min(best, (cpu_ns() - begin) / double(rounds));
  }
  return best;
}

struct Case {
  const char* what;
  const char* script;
  double most;  // ns, generously
  uint64_t keys;
  bool at_exit = false;
};

class Cost : public testing::TestWithParam<Case> {};

TEST_P(Cost, OfAHit) {
  const Case& given = GetParam();
  constexpr uint64_t kRounds = 300000;
  const uint64_t keys = given.keys;
  uint64_t key = 0;
  auto call = [&](uint64_t) {
    tiny(key);
    if (++key == keys) key = 0;
  };
  const double plain = ns_per_call(kRounds, call);
  Traced traced(given.script);
  std::vector<OwnProcess::Probe> entry{{0, 0, true, false}}, exit;
  if (given.at_exit) exit.push_back({1, 0, true, false});
  traced.process.patch(reinterpret_cast<void*>(&tiny), entry, exit);
  const double probed = ns_per_call(kRounds, call);
  printf("%-40s %6.2f ns over %.2f\n", given.what, probed - plain, plain);
  RecordProperty("ns", std::to_string(probed - plain));
  EXPECT_LT(probed - plain, given.most);
}

INSTANTIATE_TEST_SUITE_P(
    Engine, Cost,
    testing::Values(
        Case{"nothing", "uprobe:/a:f { }", 50, 16}, Case{"count()", "uprobe:/a:f { @ = count(); }", 50, 16},
        Case{"hist(arg0)", "uprobe:/a:f { @ = hist(arg0); }", 80, 1024},
        Case{"@[arg0] = count(), 1,000 keys", "uprobe:/a:f { @[arg0] = count(); }", 200, 1000},
        Case{"latency by a map of tids",
             "uprobe:/a:f { @s[tid] = nsecs; } uretprobe:/a:f /@s[tid]/ { @ = hist(nsecs - @s[tid]); "
             "delete(@s[tid]); }",
             600, 16, true}));

struct TextCase {
  const char* what;
  const char* script;
  enum { Constant, Stack, Heap, HeapByGate } where;
  double most;
};

class CostOfText : public testing::TestWithParam<TextCase> {};

TEST_P(CostOfText, AsKey) {
  static const char kConstant[] = "sixteen letters.";
  char on_stack[6000] = "sixteen letters.";
  const std::vector<char> on_heap(kConstant, kConstant + sizeof kConstant);
  const TextCase& given = GetParam();
  const char* text = given.where == TextCase::Constant ? kConstant
                     : given.where == TextCase::Stack  ? on_stack
                                                       : on_heap.data();
  const double plain = ns_per_call(100000, [&](uint64_t) { tiny_text(text); });
  Traced traced(given.script);
  if (given.where == TextCase::HeapByGate) traced.process.set_load_gate(EmulatedGate().address());
  traced.process.patch(reinterpret_cast<void*>(&tiny_text), {{0, 0, true, false}}, {});
  const double probed = ns_per_call(100000, [&](uint64_t) { tiny_text(text); });
  printf("%-40s %6.2f ns over %.2f\n", given.what, probed - plain, plain);
  RecordProperty("ns", std::to_string(probed - plain));
  EXPECT_LT(probed - plain, given.most);
}

INSTANTIATE_TEST_SUITE_P(
    Engine, CostOfText,
    testing::Values(TextCase{"@[str(arg0, 17)], a constant", "uprobe:/a:f { @[str(arg0, 17)] = count(); }",
                             TextCase::Constant, 500},
                    TextCase{"@[str(arg0, 17)], on the stack", "uprobe:/a:f { @[str(arg0, 17)] = count(); }",
                             TextCase::Stack, 500},
                    TextCase{"@[str(arg0, 17)], on the heap", "uprobe:/a:f { @[str(arg0, 17)] = count(); }",
                             TextCase::Heap, 10000},
                    TextCase{"@[str(arg0)], a constant", "uprobe:/a:f { @[str(arg0)] = count(); }",
                             TextCase::Constant, 900},
                    TextCase{"@[str(arg0)], on the heap", "uprobe:/a:f { @[str(arg0)] = count(); }",
                             TextCase::Heap, 10000},
                    TextCase{"@[str(arg0, 17)], on the heap, by the gate",
                             "uprobe:/a:f { @[str(arg0, 17)] = count(); }", TextCase::HeapByGate, 500},
                    TextCase{"@[str(arg0)], on the heap, by the gate",
                             "uprobe:/a:f { @[str(arg0)] = count(); }", TextCase::HeapByGate, 900}));

TEST(Cost, OfARecord) {
  const double plain = ns_per_call(100000, [](uint64_t i) { tiny(i); });
  Traced traced("uprobe:/a:f { printf(\"%d %d %d %d\", arg0, arg1, arg2, arg3); }");
  traced.process.patch(reinterpret_cast<void*>(&tiny), {{0, 0, true, false}}, {});
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> got = 0;
  std::thread reader([&] {
    uint64_t sum = 0;
    auto take = [&](Bytes record) { sum += record.size(); };
    while (!stop) got += traced.ring.read(take);
    got += traced.ring.read(take, true);
  });
  constexpr uint64_t kRounds = 2000000;
  const double probed = ns_per_call(kRounds, [](uint64_t i) { tiny(i); });
  stop = true;
  reader.join();
  printf("%-40s %6.2f ns over %.2f, %.1f%% lost\n", "record of 32 bytes", probed - plain, plain,
         100 * double(traced.process.total(1)) / (5 * kRounds));
  EXPECT_EQ(got + traced.process.total(1), 5 * kRounds);
}

}  // namespace
}  // namespace uscope::engine::inproc
