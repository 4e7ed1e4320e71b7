#include "view/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "unit/view/recorded_output.h"
#include "view/json_string.h"

namespace uscope::view {
namespace {

using event::MapContents;
using event::signed_value;
using event::Tuple;
using event::unsigned_value;
using event::Value;

std::string shown(const Value& value) {
  Recorded r;
  r.json.value(value);
  return r.out;
}

std::string shown_map(const MapContents& map, uint64_t top = 0, uint64_t divisor = 1) {
  Recorded r;
  r.json.map(map, top, divisor);
  return r.out;
}

// Every expectation here is what bpftrace 0.27.1 printed, unless a comment says otherwise.
TEST(Json, Events) {
  Recorded r;
  r.json.attached_probes(3);
  r.json.printf("a \"b\"\\\t\n");
  r.json.time("05:04:11\n");
  r.json.system("hi\n");
  r.json.cat("Linux\n");
  r.json.join("/bin/echo,A");
  r.json.lost_events(7);
  r.json.end();
  EXPECT_EQ(r.out,
            "{\"type\": \"attached_probes\", \"count\": 3, \"data\": {\"probes\": 3}}\n"
            "{\"type\": \"printf\", \"data\": \"a \\\"b\\\"\\\\\\t\\n\"}\n"
            "{\"type\": \"time\", \"data\": \"05:04:11\\n\"}\n"
            "{\"type\": \"syscall\", \"data\": \"hi\\n\"}\n"
            "{\"type\": \"cat\", \"data\": \"Linux\\n\"}\n"
            "{\"type\": \"join\", \"data\": \"/bin/echo,A\"}\n"
            "{\"type\": \"lost_events\", \"count\": 7, \"data\": {\"events\": 7}}\n");
}

TEST(Json, Messages) {
  Recorded r;
  r.json.script_message(Severity::Error, "/a:b/g.bt:1:9-30", "bad 3\n");
  r.json.script_message(Severity::Warning, "stdin:1:267-285", "no newline");
  r.json.helper_error({"probe_read", "stdin:1:35-54", "context", -14});
  EXPECT_EQ(
      r.out,
      "{\"type\": \"errorf\", \"msg\": \"bad 3\\n\", \"filename\": \"/a:b/g.bt\", \"line\": 1, \"col\": 9}\n"
      "{\"type\": \"warnf\", \"msg\": \"no newline\", \"filename\": \"stdin\", \"line\": 1, \"col\": 267}\n"
      "{\"type\": \"helper_error\", \"msg\": \"Bad address\", \"helper\": \"probe_read\", \"retcode\": -14, "
      "\"filename\": \"stdin\", \"line\": 1, \"col\": 35}\n");
}

TEST(Json, Values) {
  EXPECT_EQ(shown({Tuple{{signed_value(1), Value{Tuple{{signed_value(2), text_value("x")}}}, Value{true}}}}),
            "{\"type\": \"value\", \"data\": [1,[2,\"x\"],true]}\n");
  EXPECT_EQ(shown({event::Record{{{"x", signed_value(1)}, {"y", text_value("abc")}}}}),
            "{\"type\": \"value\", \"data\": {\"x\": 1, \"y\": \"abc\"}}\n");
  EXPECT_EQ(shown({event::Buffer{"a\xff\n"}}), "{\"type\": \"value\", \"data\": [97,-1,10]}\n");
  EXPECT_EQ(shown({event::Pointer{0x1234}}), "{\"type\": \"value\", \"data\": 4660}\n");
  EXPECT_EQ(shown({event::EnumValue{event::Integer{7, false, 4}, "BLUE"}}),
            "{\"type\": \"value\", \"data\": 7}\n");
  EXPECT_EQ(shown({event::Stack{false, 1, event::StackEnd::Complete, {}, {0x10}}}),
            "{\"type\": \"value\", \"data\": \"\\n        0x10\\n\"}\n");
  EXPECT_EQ(shown({}), "{\"type\": \"value\", \"data\": null}\n");
}

TEST(Json, NumbersThatADoubleCannotHoldAreText) {
  EXPECT_EQ(shown(signed_value(INT64_MAX)), "{\"type\": \"value\", \"data\": \"9223372036854775807\"}\n");
  EXPECT_EQ(shown(signed_value(9007199254740993)), "{\"type\": \"value\", \"data\": \"9007199254740993\"}\n");
  EXPECT_EQ(shown(signed_value(9007199254740992)), "{\"type\": \"value\", \"data\": 9007199254740992}\n");
  EXPECT_EQ(shown(unsigned_value(~0ull)), "{\"type\": \"value\", \"data\": \"18446744073709551615\"}\n");
  EXPECT_EQ(shown(signed_value(INT64_MIN)), "{\"type\": \"value\", \"data\": -9223372036854775808}\n");
  // bpftrace has no floats; JSON has neither infinity nor NaN.
  EXPECT_EQ(shown({event::Float{1.5}}), "{\"type\": \"value\", \"data\": 1.5}\n");
  EXPECT_EQ(shown({event::Float{1.0 / 0.0}}), "{\"type\": \"value\", \"data\": null}\n");
}

TEST(Json, Maps) {
  MapContents map{"@x",
                  {{signed_value(1), signed_value(5)},
                   {signed_value(3), signed_value(9)},
                   {signed_value(2), signed_value(3)}}};
  EXPECT_EQ(shown_map(map), "{\"type\": \"map\", \"data\": {\"@x\": {\"2\": 3, \"1\": 5, \"3\": 9}}}\n");
  EXPECT_EQ(shown_map(map, 2, 2), "{\"type\": \"map\", \"data\": {\"@x\": {\"1\": 2, \"3\": 4}}}\n");
  EXPECT_EQ(shown_map({"@c", {{std::nullopt, unsigned_value(1)}}}),
            "{\"type\": \"map\", \"data\": {\"@c\": 1}}\n");
  EXPECT_EQ(shown_map({"@x", {}}), "");
  Value pair{Tuple{{signed_value(1), text_value("abc")}}};
  EXPECT_EQ(shown_map({"@k", {{pair, signed_value(3)}}}),
            "{\"type\": \"map\", \"data\": {\"@k\": {\"1,abc\": 3}}}\n");
}

// bpftrace drops the space, so that "a b" and "ab" become one key.
TEST(Json, SpacesInKeysStay) {
  Value pair{Tuple{{text_value("a b"), signed_value(1)}}};
  EXPECT_EQ(shown_map({"@k", {{pair, signed_value(3)}}}),
            "{\"type\": \"map\", \"data\": {\"@k\": {\"a b,1\": 3}}}\n");
}

// bpftrace writes the same key twice, and a reader keeps one of the two.
TEST(Json, KeysWithTheSameTextAreToldApart) {
  auto pair = [](const char* a, const char* b) { return Value{Tuple{{text_value(a), text_value(b)}}}; };
  EXPECT_EQ(shown_map({"@k",
                       {{pair("a,b", "c"), signed_value(1)},
                        {pair("a", "b,c"), signed_value(2)},
                        {pair("x", "y"), signed_value(3)}}}),
            "{\"type\": \"map\", \"data\": {\"@k\": {\"\\\"a,b\\\",\\\"c\\\"\": 1, "
            "\"\\\"a\\\",\\\"b,c\\\"\": 2, \"x,y\": 3}}}\n");
  auto at = [](uint32_t pid) { return Value{event::Symbol{0x10, pid, 0, false}}; };
  EXPECT_EQ(shown_map({"@u", {{at(7), signed_value(1)}, {at(8), signed_value(2)}}}),
            "{\"type\": \"map\", \"data\": {\"@u\": {\"0x10 (process 7) (0x10)\": 1, "
            "\"0x10 (process 8) (0x10)\": 2}}}\n");
  // What JSON cannot hold.
  EXPECT_EQ(shown_map({"@s", {{text_value("\xfe"), signed_value(1)}, {text_value("\xff"), signed_value(2)}}}),
            "{\"type\": \"map\", \"data\": {\"@s\": {\"\\\"\\\\xfe\\\"\": 1, \"\\\"\\\\xff\\\"\": 2}}}\n");
  Value twice{event::Username{7}};
  EXPECT_EQ(shown_map({"@n", {{twice, signed_value(1)}, {twice, signed_value(2)}}}),
            "{\"type\": \"map\", \"data\": {\"@n\": {\"7 (1)\": 1, \"7 (2)\": 2}}}\n");
}

TEST(Json, Aggregates) {
  EXPECT_EQ(shown_map({"@a", {{std::nullopt, Value{event::Average{event::Integer{3}}}}}}),
            "{\"type\": \"stats\", \"data\": {\"@a\": 3}}\n");
  EXPECT_EQ(
      shown_map({"@s", {{text_value("b"), Value{event::Stats{1, event::Integer{1}, event::Integer{1}}}}}}),
      "{\"type\": \"stats\", \"data\": {\"@s\": {\"b\": {\"count\": 1, \"average\": 1, \"total\": 1}}}}\n");
}

TEST(Json, Histograms) {
  EXPECT_EQ(shown_map({"@", {{std::nullopt, hist_of({-1, 0, 1, 3})}}}),
            "{\"type\": \"hist\", \"data\": {\"@\": [{\"max\": -1, \"count\": 1},{\"min\": 0, \"max\": 0, "
            "\"count\": 1},"
            "{\"min\": 1, \"max\": 1, \"count\": 1},{\"min\": 2, \"max\": 3, \"count\": 1}]}}\n");
  EXPECT_EQ(shown_map({"@max", {{std::nullopt, hist_of({INT64_MAX})}}}),
            "{\"type\": \"hist\", \"data\": {\"@max\": [{\"min\": 4611686018427387904, \"max\": "
            "\"9223372036854775807\", "
            "\"count\": 1}]}}\n");
  EXPECT_EQ(shown_map({"@n", {{signed_value(1), lhist_of({5, 12, 20}, 10, 14, 2)}}}),
            "{\"type\": \"hist\", \"data\": {\"@n\": {\"1\": [{\"max\": 9, \"count\": 1},{\"min\": 10, "
            "\"max\": 11, \"count\": "
            "0},{\"min\": 12, \"max\": 13, \"count\": 1},{\"min\": 14, \"count\": 1}]}}}\n");
  EXPECT_EQ(shown_map({"@h", {{std::nullopt, hist_of({})}}}),
            "{\"type\": \"hist\", \"data\": {\"@h\": []}}\n");
}

TEST(Json, Series) {
  setenv("TZ", "UTC", 1);
  tzset();
  event::TimeSeries series{100000000, 4, {{158, event::Integer{7}}, {160, event::Integer{9}}}};
  EXPECT_EQ(shown_map({"@t", {{std::nullopt, Value{series}}}}),
            "{\"type\": \"tseries\", \"data\": {\"@t\": [{\"interval_start\":\"1970-01-01 "
            "00:00:15.800000000\",\"value\":7},"
            "{\"interval_start\":\"1970-01-01 00:00:16.000000000\",\"value\":9}]}}\n");
}

// bpftrace writes such bytes as they are, which no JSON reader takes.
TEST(Json, BytesThatAreNoTextAreReplaced) {
  auto json = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
  };
  EXPECT_EQ(json("\x01\x02"), "\"\\u0001\\u0002\"");
  EXPECT_EQ(json("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"), "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"");
  EXPECT_EQ(json("a\xff"
                 "b\xc3"),
            "\"a\\ufffdb\\ufffd\"");
  EXPECT_EQ(json("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"") << "a surrogate";
  EXPECT_EQ(json("\xc0\xaf"), "\"\\ufffd\\ufffd\"") << "overlong";
}

TEST(Json, Benchmarks) {
  Recorded r;
  r.json.benchmark_results({{"a", 15, 100}, {"b", 7, 200}});
  EXPECT_EQ(r.out,
            "{\"type\": \"benchmark_result\", \"data\": {\"a\": {\"average\": 15, \"iters\": 100}}}\n"
            "{\"type\": \"benchmark_result\", \"data\": {\"b\": {\"average\": 7, \"iters\": 200}}}\n");
}

}  // namespace
}  // namespace uscope::view
