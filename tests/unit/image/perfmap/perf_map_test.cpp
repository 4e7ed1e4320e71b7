#include "image/perfmap/perf_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <random>
#include <string>

namespace uscope::image {
namespace {

std::string_view name_at(const PerfMap& map, uint64_t address) {
  const PerfMapEntry* entry = map.find({address});
  return entry != nullptr ? entry->name : "";
}

TEST(PerfMap, DotnetLines) {
  PerfMap map = PerfMap::parse(
      "0x7efe5ec50000 110 stub InitThreadManagerPerfMapData<JIT_CopiedWriteBarriers>\n"
      "0x7ff7190a1860 6e4 void [app] Demo.App.Program::Main(string[])[QuickJitted]\n"
      "00007FF7190A4FA0 2d instance string [app] "
      "Demo.App.EchoProvider::calculateEchoValue(string)[OptimizedTier1]\n");
  ASSERT_EQ(map.entries().size(), 3u);
  EXPECT_EQ(map.malformed_count(), 0u);
  const PerfMapEntry* entry = map.find({0x7ff7190a1860 + 0x6e3});
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->address.value, 0x7ff7190a1860u);
  EXPECT_EQ(entry->size, 0x6e4u);
  EXPECT_EQ(map.find({0x7ff7190a1860 + 0x6e4}), nullptr);

  PerfMapName main = take_apart(entry->name);
  EXPECT_EQ(main.tier, PerfMapTier::kBaseline);
  EXPECT_EQ(main.function, "void [app] Demo.App.Program::Main(string[])");
  EXPECT_EQ(main.qualified, "Demo.App.Program::Main");
  EXPECT_EQ(take_apart(map.entries()[0].name).tier, PerfMapTier::kStub);
  EXPECT_EQ(take_apart(map.entries()[2].name).tier, PerfMapTier::kOptimized);
  EXPECT_EQ(map.match("Demo.App.EchoProvider::calculateEchoValue").size(), 1u);
  EXPECT_EQ(map.match("*EchoProvider::*").size(), 1u);
}

TEST(PerfMap, DotnetNamesWithoutATierKeepTheirBrackets) {
  PerfMapName parts = take_apart("int32[] [app] X`1[System.Int32]::get(!0[])");
  EXPECT_EQ(parts.tier, PerfMapTier::kUnknown);
  EXPECT_EQ(parts.qualified, "X`1[System.Int32]::get");
  EXPECT_EQ(take_apart("!!0[] [Lib] System.Array::Empty()[PreJIT]").qualified, "System.Array::Empty");
  EXPECT_EQ(take_apart("void [a] B::c()[Optimized]").function, "void [a] B::c()");
  EXPECT_EQ(take_apart("void [a] B::c()[OptimizedTier1OSR]").tier, PerfMapTier::kOnStack);
  EXPECT_EQ(take_apart("x[NoTier]").function, "x[NoTier]");
}

TEST(PerfMap, NodeLines) {
  PerfMap map = PerfMap::parse(
      "3e8b8ad2a4c0 5c JS:~compute file:///app/server.js:12:20\n"
      "3e8b8ad2b000 10 JS:^get size /srv/my app/x.js:3:4\n"
      "3e8b8ad2c000 80 JS:*compute file:///app/server.js:12:20\n"
      "3e8b8ad2d000 80 LazyCompile:+old node:internal/util:1:2\n"
      "3e8b8ad2e000 40 Builtin:ArrayPrototypePush\n");
  ASSERT_EQ(map.entries().size(), 5u);
  PerfMapName parts = take_apart(map.entries()[0].name);
  EXPECT_EQ(parts.tier, PerfMapTier::kInterpreted);
  EXPECT_EQ(parts.function, "compute");
  EXPECT_EQ(parts.source, "file:///app/server.js:12:20");
  parts = take_apart(map.entries()[1].name);
  EXPECT_EQ(parts.tier, PerfMapTier::kBaseline);
  EXPECT_EQ(parts.function, "get size");
  EXPECT_EQ(parts.source, "/srv/my app/x.js:3:4");
  parts = take_apart(map.entries()[3].name);
  EXPECT_EQ(parts.tier, PerfMapTier::kMiddle);
  EXPECT_EQ(parts.function, "old");
  EXPECT_EQ(parts.source, "node:internal/util:1:2");
  EXPECT_EQ(take_apart(map.entries()[4].name).tier, PerfMapTier::kStub);
  auto found = map.match("compute");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->address.value, 0x3e8b8ad2c000u);  // the newest first
  EXPECT_EQ(take_apart("JS:*anonymous").function, "anonymous");
}

TEST(PerfMap, JvmLines) {
  PerfMap map = PerfMap::parse(
      "0x00007f8b1c4f2a00 0x00000000000000d8 int Main.fib(int)\n"
      "0x00007f8b1c4f2c00 0x0000000000000040 java.lang.String java.util.HashMap$Node.<init>(int, "
      "java.lang.Object)\n"
      "0x00007f8b1c4f2d00 0x0000000000000040 Interpreter\n");
  EXPECT_EQ(map.malformed_count(), 0u);
  EXPECT_EQ(name_at(map, 0x7f8b1c4f2a10), "int Main.fib(int)");
  EXPECT_EQ(map.match("int Main.fib(int)").size(), 1u);
  EXPECT_EQ(map.match("Main.fib").size(), 1u);
  EXPECT_EQ(take_apart(map.entries()[1].name).qualified, "java.util.HashMap$Node.<init>");
  EXPECT_EQ(take_apart(map.entries()[2].name).qualified, "Interpreter");
  EXPECT_EQ(map.match("*HashMap*").size(), 1u);
}

TEST(PerfMap, WhenMemoryIsReusedTheNewestWins) {
  PerfMap map = PerfMap::parse(
      "1000 100 JS:*old /a.js:1:1\n"
      "2000 100 JS:*moved /a.js:2:2\n"
      "1080 100 JS:*new /a.js:3:3\n"
      "3000 100 JS:*moved /a.js:2:2\n");
  EXPECT_EQ(name_at(map, 0x1090), "JS:*new /a.js:3:3");
  EXPECT_EQ(name_at(map, 0x117f), "JS:*new /a.js:3:3");
  // What is left of the old entry is still found, but marked: the code there is gone.
  const PerfMapEntry* left = map.find({0x1010});
  ASSERT_NE(left, nullptr);
  EXPECT_TRUE(left->superseded);
  EXPECT_TRUE(map.match("old").empty());
  EXPECT_FALSE(map.find({0x1090})->superseded);
  // Code that moved and whose old place nobody took may still be running.
  EXPECT_EQ(map.match("moved").size(), 2u);
}

TEST(PerfMap, AnOlderEntryThatBeginsAboveANewerOneIsSupersededToo) {
  PerfMap map = PerfMap::parse("1080 20 old\n1000 100 new\n");
  EXPECT_EQ(name_at(map, 0x1080), "new");
  EXPECT_TRUE(map.entries()[0].superseded);
  EXPECT_FALSE(map.entries()[1].superseded);
}

TEST(PerfMap, StubsInsideAStubBlockDoNotSupersedeIt) {
  PerfMap map = PerfMap::parse("1000 1000 stub ReportStubBlock<X>\n1100 10 stub CreateHelper<Y>\n");
  EXPECT_EQ(name_at(map, 0x1105), "stub CreateHelper<Y>");
  EXPECT_EQ(name_at(map, 0x1200), "stub ReportStubBlock<X>");
  EXPECT_FALSE(map.entries()[0].superseded);
}

TEST(PerfMap, MalformedLinesAreCountedAndTheRestIsKept) {
  PerfMap map = PerfMap::parse(
      "1000 10 good one\r\n"
      "\n"
      "nonsense\n"
      "2000\n"
      "2000 10\n"
      "2000 10 \n"
      " 2000 10 leading space\n"
      "0x 10 no digits\n"
      "fffffffffffffffff 10 too wide\n"
      "fffffffffffffff0 20 wraps around\n"
      "3000 0 empty\n"
      "4000 -1 negative\n"
      "5000 10 last without newline");
  ASSERT_EQ(map.entries().size(), 3u);
  EXPECT_EQ(map.entries()[0].name, "good one");
  EXPECT_EQ(map.entries()[1].name, "empty");
  EXPECT_EQ(map.entries()[2].name, "last without newline");
  EXPECT_EQ(map.malformed_count(), 9u);
  EXPECT_EQ(map.malformed_lines()[0], 3u);
  EXPECT_EQ(map.find({0x3000}), nullptr);  // nothing is covered by an entry without size
}

TEST(PerfMap, GrowsAsTheFileDoesEvenInTheMiddleOfALine) {
  PerfMap map;
  map.append("1000 10 first\n2000 1");
  EXPECT_EQ(map.entries().size(), 1u);
  std::string_view first = map.entries()[0].name;
  map.append("0 sec");
  map.append("ond\n1000 10 replaced\n");
  ASSERT_EQ(map.entries().size(), 3u);
  EXPECT_EQ(map.entries()[1].name, "second");
  EXPECT_EQ(first, "first");
  EXPECT_EQ(name_at(map, 0x1000), "replaced");
  PerfMap moved = std::move(map);
  EXPECT_EQ(name_at(moved, 0x2000), "second");
}

TEST(PerfMap, AgreesWithAPlainModelOnRandomOverlaps) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    std::map<uint64_t, int> newest;  // by address
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    int count = 1 + int(random() % 12);
    for (int i = 0; i < count; ++i) {
      uint64_t begin = 0x100 + random() % 40, size = random() % 12;
      text += fmt::format("{:x} {:x} f{}\n", begin, size, i);
      for (uint64_t at = begin; at < begin + size; ++at) newest[at] = i;
      ranges.emplace_back(begin, begin + size);
    }
    PerfMap map = PerfMap::parse(text);
    for (uint64_t at = 0xf0; at < 0x140; ++at) {
      std::string expected = newest.contains(at) ? fmt::format("f{}", newest[at]) : "";
      ASSERT_EQ(name_at(map, at), expected) << text << std::hex << at;
    }
    for (int i = 0; i < count; ++i) {
      bool superseded = false;
      for (int j = i + 1; j < count; ++j) {
        superseded |=
            std::max(ranges[i].first, ranges[j].first) < std::min(ranges[i].second, ranges[j].second);
      }
      ASSERT_EQ(map.entries()[i].superseded, superseded) << text << i;
    }
  }
}

TEST(PerfMap, AMillionLinesInWellUnderASecond) {
  std::string text;
  std::mt19937_64 random(3);
  for (int i = 0; i < 1'000'000; ++i) {
    text +=
        fmt::format("{:x} {:x} JS:*function_number_{} file:///srv/application/lib/module_{}.js:{}:17\n",
                    0x3e8b00000000 + (random() % 4'000'000) * 64, 64 + random() % 512, i, i % 997, i % 5000);
  }
  // Processor time, so that a busy machine does not fail this; and generous, so that only a worse algorithm
  // does.
  std::clock_t begin = std::clock();
  PerfMap map = PerfMap::parse(std::move(text));
  EXPECT_EQ(map.entries().size(), 1'000'000u);
  map.find({0x3e8b00001000});
  double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  RecordProperty("milliseconds", int(seconds * 1000));
  EXPECT_LT(seconds, 2.0);
}

}  // namespace
}  // namespace uscope::image
