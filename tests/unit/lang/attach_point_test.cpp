#include "lang/attach_point.h"

#include <gtest/gtest.h>

namespace uscope::lang {
namespace {

AttachSpec take(const std::string& text, const std::vector<std::string>& positional = {}) {
  Diagnostics diagnostics;
  auto spec = parse_attach_point(text, Span{}, positional, diagnostics);
  EXPECT_TRUE(spec) << text << ": " << (diagnostics.all().empty() ? "" : diagnostics.all()[0].message);
  return spec.value_or(AttachSpec{});
}

std::string problem(const std::string& text) {
  Diagnostics diagnostics;
  auto spec = parse_attach_point(text, Span{}, {}, diagnostics);
  return spec ? "fine" : diagnostics.all().at(0).message;
}

TEST(AttachPoint, KindsInAnyCaseShortNamesExactly) {
  EXPECT_EQ(take("BEGIN").kind, ProbeKind::kBegin);
  EXPECT_EQ(take("end").kind, ProbeKind::kEnd);
  EXPECT_EQ(take("Uprobe:a:b").kind, ProbeKind::kUprobe);
  EXPECT_EQ(take("u:a:b").kind, ProbeKind::kUprobe);
  EXPECT_EQ(take("U:a:b").kind, ProbeKind::kUsdt);
  EXPECT_EQ(take("ur:a:b").kind, ProbeKind::kUretprobe);
  EXPECT_EQ(problem("foo:bar"), "Invalid probe type: foo");
  EXPECT_EQ(probe_type(ProbeKind::kBegin), "special");
}

TEST(AttachPoint, FunctionsOffsetsAndAddresses) {
  AttachSpec spec = take("uprobe:/bin/bash:readline+0x10");
  EXPECT_EQ(spec.target, "/bin/bash");
  EXPECT_EQ(spec.function, "readline");
  EXPECT_EQ(spec.offset, 16u);
  EXPECT_EQ(take("uprobe:/bin/bash:0x1234").address, 0x1234u);
  EXPECT_EQ(problem("uprobe:/bin/bash:f+x"), "Invalid offset: invalid integer: x");
  EXPECT_EQ(problem("uretprobe:/bin/bash:f+4"), "Offset not allowed");
}

TEST(AttachPoint, CppNamesQuotedOrNot) {
  AttachSpec spec = take("uprobe:./a:cpp:\"A::B(int, char)\"");
  EXPECT_TRUE(spec.cpp);
  EXPECT_EQ(spec.function, "A::B(int, char)");
  EXPECT_EQ(take("uprobe:./a:A::B(int, std::string)").function, "A::B(int, std::string)");
  EXPECT_EQ(take("uprobe:./a:A::operator+").function, "A::operator+");
  EXPECT_EQ(take("uprobe:./a:A::operator++").function, "A::operator++");
  EXPECT_EQ(take("uprobe:./a:*folly*run*").function, "*folly*run*");
  EXPECT_EQ(problem("uprobe:./a:rust:f"), "unsupported language type: rust");
}

TEST(AttachPoint, SourceLines) {
  AttachSpec spec = take("uprobe:./a@src/main.c:12:3");
  EXPECT_EQ(spec.target, "./a");
  EXPECT_EQ(spec.source_file, "src/main.c");
  EXPECT_EQ(spec.line, 12u);
  EXPECT_EQ(spec.column, 3u);
  EXPECT_EQ(problem("uprobe:./a@f.c"),
            "Invalid uprobe arguments, expected format: uprobe:TARGET@FILE:LINE[:COL]");
  EXPECT_EQ(problem("uprobe:./a@f.c:x"), "Invalid line number: invalid integer: x");
}

TEST(AttachPoint, UsdtWithAndWithoutProvider) {
  AttachSpec spec = take("usdt:/bin/x:prov:event");
  EXPECT_EQ(spec.provider, "prov");
  EXPECT_EQ(spec.function, "event");
  EXPECT_EQ(take("usdt:*:event").target, "*");
  EXPECT_EQ(take("usdt:/bin/x::event").provider, "");
  EXPECT_EQ(problem("usdt:foo"), "usdt probe type requires 2 or 3 arguments, found 1");
}

TEST(AttachPoint, Timers) {
  EXPECT_EQ(take("interval:s:1").period_ns, 1000000000u);
  EXPECT_EQ(take("i:1s").period_ns, 1000000000u);
  EXPECT_EQ(take("profile:hz:99").frequency, 99u);
  EXPECT_EQ(take("interval:us:1e6").period_ns, 1000000000u);
  EXPECT_EQ(problem("interval:s"), "Invalid rate of interval probe: invalid integer: s");
  EXPECT_EQ(problem("interval:x:1"), "x is not an accepted unit of time");
  EXPECT_EQ(problem("interval:s:0"), "interval frequency should be a positive integer");
  EXPECT_EQ(problem("interval:5"),
            "Invalid rate of interval probe. Minimum is 1000 or 1us. Found: 5 nanoseconds");
  EXPECT_EQ(problem("interval:a:b:c"), "interval probe type requires 1 or 2 arguments, found 3");
}

TEST(AttachPoint, EventsSignalsNamesAndParameters) {
  EXPECT_EQ(take("software:faults:100").count, 100u);
  EXPECT_EQ(take("software:faults:").count, 0u);
  EXPECT_EQ(problem("software:foo:1"), "foo is not a software probe");
  EXPECT_EQ(take("self:signal:SIGUSR1").event, "SIGUSR1");
  EXPECT_EQ(problem("self:signal:SIGFOO"), "SIGFOO is not a supported signal");
  EXPECT_EQ(take("mine=uprobe:a:b").name, "mine");
  AttachSpec spec = take("uprobe:$1:f_$2", {"/bin/x", "tail"});
  EXPECT_EQ(spec.target, "/bin/x");
  EXPECT_EQ(spec.function, "f_tail");
  EXPECT_EQ(problem("BEGIN:foo"), "begin probe type requires 0 arguments, found 1");
}

}  // namespace
}  // namespace uscope::lang
