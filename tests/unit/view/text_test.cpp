#include "view/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "unit/view/recorded_output.h"

namespace uscope::view {
namespace {

using event::MapContents;
using event::signed_value;
using event::Tuple;
using event::unsigned_value;
using event::Value;

// Every expectation here is what bpftrace 0.27.1 printed, unless a comment says otherwise.
TEST(Text, Probes) {
  Recorded r;
  r.text.attached_probes(1);
  r.text.attached_probes(3);
  EXPECT_EQ(r.diagnostics, "Attached 1 probe\nAttached 3 probes\n");
  EXPECT_EQ(r.out, "");
}

TEST(Text, PlainEvents) {
  Recorded r;
  r.text.printf("a\tb\n");
  r.text.time("05:04:10\n");
  r.text.system("hi\n");
  r.text.cat("Linux\n");
  r.text.join("/bin/echo A");
  r.text.value(signed_value(-1));
  r.text.end();
  EXPECT_EQ(r.out, "a\tb\n05:04:10\nhi\n\nLinux\n/bin/echo A\n-1\n\n\n");
}

TEST(Text, MapsAreInOrderOfTheirNumbers) {
  Recorded r;
  MapContents map{"@x", {}};
  for (auto [key, value] : {std::pair{1, 5}, {2, 3}, {3, 9}, {4, -3}, {7, 1}}) {
    map.entries.push_back({signed_value(key), signed_value(value)});
  }
  r.text.map(map);
  EXPECT_EQ(r.take(), "@x[4]: -3\n@x[7]: 1\n@x[2]: 3\n@x[1]: 5\n@x[3]: 9\n");
  r.text.map(map, 2, 1);
  EXPECT_EQ(r.take(), "@x[1]: 5\n@x[3]: 9\n");
  r.text.map(map, 2, 2);
  EXPECT_EQ(r.take(), "@x[1]: 2\n@x[3]: 4\n");
  r.text.map(map, 0, 2);
  EXPECT_EQ(r.take(), "@x[4]: -1\n@x[7]: 0\n@x[2]: 1\n@x[1]: 2\n@x[3]: 4\n");
  r.text.map(map, 100, 1);
  EXPECT_EQ(r.take(), "@x[4]: -3\n@x[7]: 1\n@x[2]: 3\n@x[1]: 5\n@x[3]: 9\n");
}

TEST(Text, OtherMapsAreInOrderOfTheirKeys) {
  Recorded r;
  r.text.map({"@s",
              {{text_value("b"), text_value("x")},
               {text_value("c"), text_value("a")},
               {text_value("a"), text_value("z")}}});
  EXPECT_EQ(r.take(), "@s[a]: z\n@s[b]: x\n@s[c]: a\n");
  Value pair{Tuple{{signed_value(1), text_value("abc")}}};
  r.text.map({"@k", {{pair, signed_value(3)}}});
  EXPECT_EQ(r.take(), "@k[1, abc]: 3\n");
}

TEST(Text, UnsignedNumbersAreNotNegative) {
  Recorded r;
  r.text.map({"@u", {{signed_value(1), unsigned_value(~0ull)}, {signed_value(2), unsigned_value(3)}}});
  EXPECT_EQ(r.out, "@u[2]: 3\n@u[1]: 18446744073709551615\n");
}

// bpftrace's order of equals is the kernel's hash, another one each time.
TEST(Text, EqualsAreInOrderOfTheirKeys) {
  Recorded r;
  r.text.map({"@e",
              {{signed_value(5), unsigned_value(1)},
               {signed_value(-1), unsigned_value(1)},
               {signed_value(3), unsigned_value(1)}}});
  EXPECT_EQ(r.out, "@e[-1]: 1\n@e[3]: 1\n@e[5]: 1\n");
}

TEST(Text, ScalarsAndEmptyMaps) {
  Recorded r;
  r.text.map({"@", {{std::nullopt, signed_value(1)}}});
  EXPECT_EQ(r.take(), "@: 1\n");
  r.text.map({"@x", {}});
  EXPECT_EQ(r.take(), "");
}

event::Stats stats(uint64_t count, uint64_t average, uint64_t total) {
  return {count, event::Integer{average}, event::Integer{total}};
}

TEST(Text, StatsByAverageAndOnlyTheAverageIsDivided) {
  Recorded r;
  MapContents map{"@s",
                  {{text_value("a"), Value{stats(1, 5, 5)}}, {text_value("b"), Value{stats(5, 2, 10)}}}};
  r.text.map(map);
  EXPECT_EQ(
      r.take(),
      "@s[b]: { .count = 5, .average = 2, .total = 10 }\n@s[a]: { .count = 1, .average = 5, .total = 5 }\n");
  r.text.map(map, 0, 2);
  EXPECT_EQ(
      r.take(),
      "@s[b]: { .count = 5, .average = 1, .total = 10 }\n@s[a]: { .count = 1, .average = 2, .total = 5 }\n");
}

TEST(Text, HistogramsByHowMuchTheyHold) {
  Recorded r;
  std::string bar(52, '@');
  MapContents map{"@h",
                  {{text_value("a"), hist_of({1, 1})},
                   {text_value("c"), hist_of({2, 2, 2})},
                   {text_value("b"), hist_of({2})}}};
  r.text.map(map);
  EXPECT_EQ(r.take(), "@h[b]:\n[2, 4)                 1 |" + bar + "|\n\n@h[a]:\n[1]                    2 |" +
                          bar + "|\n\n@h[c]:\n[2, 4)                 3 |" + bar + "|\n\n");
  r.text.map(map, 1, 2);
  EXPECT_EQ(r.take(), "@h[c]:\n[2, 4)                 1 |" + bar + "|\n\n");
  r.text.map({"@h", {{std::nullopt, hist_of({})}}});
  EXPECT_EQ(r.take(), "@h:\n\n");
}

TEST(Text, StacksAsKeys) {
  Recorded r;
  Value stack{event::Stack{false, 1, event::StackEnd::Complete, {}, {0x10, 0x20}}};
  r.text.map({"@", {{stack, unsigned_value(1)}}});
  EXPECT_EQ(r.out, "@[\n        0x10\n        0x20\n]: 1\n");
}

TEST(Text, MessagesOfTheScript) {
  Recorded r;
  r.text.script_message(Severity::Error, "g.bt:1:9-30", "bad 3\n");
  r.text.script_message(Severity::Warning, "g.bt:1:32-53", "warn x");
  EXPECT_EQ(r.diagnostics, "g.bt:1:9-30: ERROR: bad 3\ng.bt:1:32-53: WARNING: warn x\n");
}

TEST(Text, HelperErrors) {
  Recorded r;
  r.text.helper_error({"probe_read", "stdin:1:35-54", "x = *0;\n    ~~", -14});
  EXPECT_EQ(r.diagnostics,
            "stdin:1:35-54: WARNING: Bad address\nAdditional Info - helper: probe_read, retcode: -14\nx = "
            "*0;\n    ~~\n");
  r.diagnostics.clear();
  r.text.helper_error({"map_update_elem", "stdin:1:46-53", "", -7});
  EXPECT_EQ(r.diagnostics,
            "stdin:1:46-53: WARNING: Map full; can't update element. Try increasing max_map_keys config or "
            "manually "
            "setting the max entries in a map declaration e.g. `let @a = hash(5000)`\n"
            "Additional Info - helper: map_update_elem, retcode: -7\n");
}

TEST(Text, LostEvents) {
  Recorded r;
  r.text.lost_events(1659);
  EXPECT_EQ(r.diagnostics, "Lost 1659 events\n");
}

Value series(std::vector<std::pair<uint64_t, int64_t>> points, uint64_t interval_ns, uint64_t intervals) {
  event::TimeSeries out{interval_ns, intervals, {}};
  for (auto [epoch, value] : points)
    out.points.push_back({epoch, event::Integer{static_cast<uint64_t>(value)}});
  return {out};
}

class Series : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Series, FromTheSmallestToTheLargestWithZeroMarked) {
  Recorded r;
  r.text.map({"@a",
              {{std::nullopt,
                series({{152, -3}, {153, -2}, {154, -1}, {155, 0}, {156, 1}, {157, 2}, {158, 3}, {159, 4}},
                       100000000, 20)}}});
  EXPECT_EQ(r.out,
            "@a:\n"
            "             -3                                                  4\n"
            "hh:mm:ss.ms  |___________________________________________________|\n"
            "00:00:15.200 *                     .                             | -3\n"
            "00:00:15.300 |      *              .                             | -2\n"
            "00:00:15.400 |             *       .                             | -1\n"
            "00:00:15.500 |                     *                             | 0\n"
            "00:00:15.600 |                     .      *                      | 1\n"
            "00:00:15.700 |                     .              *              | 2\n"
            "00:00:15.800 |                     .                     *       | 3\n"
            "00:00:15.900 |                     .                             * 4\n"
            "             v___________________________________________________v\n"
            "             -3                                                  4\n\n");
}

TEST_F(Series, GapsAndASingleValue) {
  Recorded r;
  r.text.map({"@av", {{signed_value(1), series({{155, 4}, {156, 5}, {158, 7}}, 100000000, 4)}}});
  EXPECT_EQ(r.take(),
            "@av[1]:\n"
            "             4                                                   7\n"
            "hh:mm:ss.ms  |___________________________________________________|\n"
            "00:00:15.500 *                                                   | 4\n"
            "00:00:15.600 |                *                                  | 5\n"
            "00:00:15.700 |                                                   | -\n"
            "00:00:15.800 |                                                   * 7\n"
            "             v___________________________________________________v\n"
            "             4                                                   7\n\n");
  r.text.map({"@t", {{std::nullopt, series({{38, 7}}, 1000000000, 5)}}});
  EXPECT_EQ(r.take(),
            "@t:\n"
            "                   6                                                   8\n"
            "hh:mm:ss.ns        |___________________________________________________|\n"
            "00:00:38.000000000 |                         *                         | 7\n"
            "                   v___________________________________________________v\n"
            "                   6                                                   8\n\n");
}

TEST_F(Series, AreAllShownUndivided) {
  Recorded r;
  r.text.map({"@a",
              {{event::signed_value(1), series({{10, 8}}, 1000000000, 5)},
               {event::signed_value(2), series({{10, 6}}, 1000000000, 5)}}},
             1, 2);
  EXPECT_NE(r.out.find("@a[1]:\n"), std::string::npos);
  EXPECT_NE(r.out.find("| 8\n"), std::string::npos);
  EXPECT_NE(r.out.find("@a[2]:\n"), std::string::npos);
  EXPECT_NE(r.out.find("| 6\n"), std::string::npos);
}

TEST_F(Series, BrokenEpochsEndSoon) {
  Recorded r;
  r.text.value(series({{0, 1}, {UINT64_MAX - 1, 2}}, 1, 4));
  EXPECT_LT(r.out.size(), 20u << 20);
}

// The whole of a large map is written at once, well under a second.
TEST(Text, AHundredThousandKeys) {
  MapContents map{"@big", {}};
  map.entries.reserve(100000);
  for (int64_t i = 0; i < 100000; ++i) {
    map.entries.push_back({Value{Tuple{{signed_value(i), text_value("key")}}},
                           unsigned_value(static_cast<uint64_t>(i * 7919 % 100003))});
  }
  Recorded r;
  size_t writes = 0;
  TextOutput text([&](std::string_view) { ++writes; }, [](std::string_view) {}, r.names);
  // Processor time: the machine may be busy with other things.
  std::clock_t start = std::clock();
  text.map(map, 0, 1);
  r.json.map(map, 0, 1);
  std::clock_t took = std::clock() - start;
  EXPECT_EQ(writes, 1u);
  EXPECT_LT(static_cast<double>(took) / CLOCKS_PER_SEC, 1.0);
}

TEST(Text, Benchmarks) {
  Recorded r;
  r.text.benchmark_results({{"a", 1500, 8000}, {"a_long_name", 12, 80000}});
  EXPECT_EQ(r.out,
            "Benchmark                                Time(ns)       Iterations\n"
            "------------------------------------------------------------------\n"
            "a                                        1500           8000\n"
            "a_long_name                              12             80000\n");
}

}  // namespace
}  // namespace uscope::view
