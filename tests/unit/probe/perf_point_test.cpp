#include "probe/perf_point.h"

#include <gtest/gtest.h>

namespace uscope::probe {
namespace {

PerfPoint parsed(std::string_view text) {
  auto point = parse_perf_point(text);
  EXPECT_TRUE(point) << text << ": " << (point ? "" : point.error().message());
  return point ? *point : PerfPoint{};
}

TEST(PerfPoint, FunctionWithArguments) {
  PerfPoint point = parsed("work n txt:string sum=p->a.b[2]:s32");
  EXPECT_EQ(point.place, "work");
  ASSERT_EQ(point.arguments.size(), 3u);
  EXPECT_EQ(point.arguments[1].expression, "txt");
  EXPECT_EQ(point.arguments[1].type, "string");
  EXPECT_EQ(point.arguments[2].name, "sum");
  EXPECT_EQ(point.arguments[2].expression, "p->a.b[2]");
  EXPECT_EQ(point.arguments[2].type, "s32");
}

TEST(PerfPoint, GroupEventAndSuffixes) {
  PerfPoint point = parsed("grp:ev=work%return $retval");
  EXPECT_EQ(point.group, "grp");
  EXPECT_EQ(point.event, "ev");
  EXPECT_TRUE(point.is_return);
  EXPECT_TRUE(point.arguments[0].is_raw());
  EXPECT_EQ(parsed("work:12").line, 12u);
  EXPECT_EQ(parsed("work+0x10").offset, 0x10u);
  EXPECT_EQ(parsed("work@t.c").source_file, "t.c");
  EXPECT_EQ(parsed("work@dir/t.c:3").line, 3u);
  EXPECT_EQ(parsed("work;return*").pattern, "return*");
  EXPECT_EQ(parsed("0x1900").address, 0x1900u);
}

TEST(PerfPoint, NamesOfOtherLanguages) {
  EXPECT_EQ(parsed("main.(*server).handleRequest r.Question[0].Name").place, "main.(*server).handleRequest");
  EXPECT_EQ(parsed("ns::A::f(int, char const*) x").place, "ns::A::f(int, char const*)");
  EXPECT_EQ(parsed("ns::A::f").place, "ns::A::f");
  EXPECT_EQ(parsed("V::operator+").place, "V::operator+");
  EXPECT_EQ(parsed("V::operator==").place, "V::operator==");
  EXPECT_EQ(parsed("std::vector<int, std::allocator<int> >::size").place,
            "std::vector<int, std::allocator<int> >::size");
  EXPECT_EQ(parsed("\"odd name:3\"").place, "odd name:3");
}

TEST(PerfPoint, RawFetchArguments) {
  PerfPoint point = parsed("f Question=+0(+0(+40(+32(%sp)))):string");
  EXPECT_EQ(point.arguments[0].name, "Question");
  EXPECT_EQ(point.arguments[0].expression, "+0(+0(+40(+32(%sp))))");
  EXPECT_EQ(point.arguments[0].type, "string");
}

TEST(PerfPoint, Sdt) {
  PerfPoint point = parsed("%sdt_libc:setjmp");
  EXPECT_TRUE(point.is_sdt);
  EXPECT_EQ(point.place, "libc");
  EXPECT_EQ(point.event, "setjmp");
}

TEST(PerfPoint, ErrorsSayWhatIsWrong) {
  EXPECT_NE(parse_perf_point("work:abc").error().message().find("not a line number"), std::string::npos);
  EXPECT_NE(parse_perf_point("").error().message().find("empty"), std::string::npos);
  EXPECT_NE(parse_perf_point("f%return+3").error().message().size(), 0u);
}

TEST(LineSpan, Shapes) {
  EXPECT_EQ(parse_line_span("work")->has_lines, false);
  EXPECT_EQ(parse_line_span("t.c:5-9")->last, 9u);
  EXPECT_EQ(parse_line_span("work:5+3")->last, 7u);
  EXPECT_EQ(parse_line_span("ns::f@a.cc:2")->source_file, "a.cc");
  EXPECT_FALSE(parse_line_span("t.c:9-5"));
}

TEST(VariablePath, FieldsAndIndexes) {
  auto path = parse_variable_path("r->Question[0].Name");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->variable, "r");
  ASSERT_EQ(path->accessors.size(), 3u);
  EXPECT_EQ(path->accessors[1].index, 0);
  EXPECT_EQ(path->accessors[2].field, "Name");
  EXPECT_EQ(parse_variable_path("*p")->dereferences, 1u);
  EXPECT_FALSE(parse_variable_path("a[b]"));
  EXPECT_FALSE(parse_variable_path("a..b"));
}

}  // namespace
}  // namespace uscope::probe
