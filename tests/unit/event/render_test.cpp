#include "event/render.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace uscope::event {
namespace {

class FakeNames : public SymbolNames {
 public:
  std::vector<Frame> user_frames(uint32_t pid, uint64_t address, bool is_return_address) override {
    asked_return = is_return_address;
    if (pid != 7) return {};
    if (address == 0x401615) return {{"work", 0, "/bin/t", false}};
    if (address == 0x4016bc) return {{"helper", 0, "/bin/t", true}, {"main", 145, "/bin/t", false}};
    return {};
  }
  std::vector<Frame> kernel_frames(uint64_t) override { return {{"do_exit", 5, "", false}}; }
  std::optional<std::string> user_name(uint64_t uid) override {
    return uid == 0 ? std::optional<std::string>("root") : std::nullopt;
  }
  std::optional<std::string> cgroup_path(uint64_t, const std::string&) override { return "unified:/a"; }
  int64_t boot_to_wall_ns() override { return 1000000000; }
  bool asked_return = false;
};

std::string shown(const Value& value, Spacing spacing = Spacing::Plain) {
  FakeNames names;
  return to_text(value, names, spacing);
}

Value text(std::string value) { return {std::move(value)}; }
Value nested() { return {Tuple{{signed_value(1), Value{Tuple{{signed_value(2), text("x")}}}, Value{true}}}}; }
Value record() { return {Record{{{"x", signed_value(1)}, {"y", text("abc")}}}}; }

// What bpftrace 0.27.1 prints.
TEST(Render, CompoundValues) {
  EXPECT_EQ(shown(nested()), "(1, (2, x), true)");
  EXPECT_EQ(shown(Value{Tuple{{signed_value(1)}}}), "(1)");
  EXPECT_EQ(shown(record()), "{ .x = 1, .y = abc }");
  EXPECT_EQ(shown(Value{Record{}}), "{}");
  Value row{Array{{signed_value(1), signed_value(2)}}};
  EXPECT_EQ(shown(Value{Array{{row, row}}}), "[[1,2],[1,2]]");
}

TEST(Render, CompactAsInJsonKeys) {
  EXPECT_EQ(shown(nested(), Spacing::Compact), "(1,(2,x),true)");
  EXPECT_EQ(shown(record(), Spacing::Compact), "{.x=1,.y=abc}");
  EXPECT_EQ(shown(Value{Stack{false, 7, StackEnd::Complete, Layout::StackStyle::Bpftrace, {0x401615}}},
                  Spacing::Compact),
            "\nwork+0\n");
}

TEST(Render, KeysHaveNoParentheses) {
  FakeNames names;
  std::string out;
  append_key(out, nested(), names);
  EXPECT_EQ(out, "1, (2, x), true");
  out.clear();
  // Text that looks like a tuple is left alone.
  append_key(out, text("(a)"), names);
  EXPECT_EQ(out, "(a)");
}

TEST(Render, Scalars) {
  EXPECT_EQ(shown(unsigned_value(~0ull)), "18446744073709551615");
  EXPECT_EQ(shown(signed_value(-1)), "-1");
  EXPECT_EQ(shown(Value{Pointer{0}}), "0x0");
  EXPECT_EQ(shown(Value{Float{2.5f, 4}}), "2.5");
  EXPECT_EQ(shown(Value{Float{0.1}}), "0.1");
  EXPECT_EQ(shown(Value{}), "null");
  EXPECT_EQ(shown(Value{Buffer{std::string("\0abc", 4)}}), "\\x00abc");
  EXPECT_EQ(shown(Value{Stats{2, Integer{static_cast<uint64_t>(-3)}, Integer{static_cast<uint64_t>(-6)}}}),
            "{ .count = 2, .average = -3, .total = -6 }");
}

TEST(Render, StacksInThreeStyles) {
  Stack stack{
      false, 7, StackEnd::Complete, Layout::StackStyle::Bpftrace, {0x401615, 0x4016bc, 0xbe552274c0854800}};
  EXPECT_EQ(shown(Value{stack}),
            "\n        work+0\n        [inlined] helper\n        main+145\n        0xbe552274c0854800\n");
  stack.style = Layout::StackStyle::Perf;
  EXPECT_EQ(shown(Value{stack}),
            "\n\t401615 work+0 (/bin/t)\n\t4016bc helper (inlined)\n\t4016bc main+145 (/bin/t)\n"
            "\tbe552274c0854800 0xbe552274c0854800 ([unknown])\n");
  stack.style = Layout::StackStyle::Raw;
  EXPECT_EQ(shown(Value{stack}), "\n401615\n4016bc\nbe552274c0854800\n");
}

TEST(Render, OnlyTheInnermostAddressIsNoReturnAddress) {
  FakeNames names;
  to_text(Value{Stack{false, 7, StackEnd::Complete, {}, {1}}}, names);
  EXPECT_FALSE(names.asked_return);
  to_text(Value{Stack{false, 7, StackEnd::Complete, {}, {1, 2}}}, names);
  EXPECT_TRUE(names.asked_return);
}

TEST(Render, AStackThatLeadsToNoCodeSaysSo) {
  struct NoCode : FakeNames {
    bool is_user_code(uint32_t, uint64_t address) override { return address != 5; }
    bool shows_stack_ends() override { return true; }
  } names;
  Stack stack{false, 7, StackEnd::Complete, {}, {0x401615, 5, 6}};
  EXPECT_EQ(to_text(Value{stack}, names),
            "\n        work+0\n        [unwound no further: the return address leads to no code]\n");
  // The unwinder itself has seen code there, which is gone since.
  stack.is_exact = {true, false, false};
  EXPECT_EQ(to_text(Value{stack}, names), "\n        work+0\n        0x5\n        0x6\n");
  // It did not know.
  stack.addresses = {0x401615, 5};
  stack.end = StackEnd::UnknownImage;
  EXPECT_EQ(to_text(Value{stack}, names),
            "\n        work+0\n        [unwound no further: the return address leads to no code]\n");
}

TEST(Render, NamesAreLookedUpOrTheNumberIsShown) {
  EXPECT_EQ(shown(Value{Symbol{0x4016bc, 7, 0}}), "main");
  EXPECT_EQ(shown(Value{Symbol{5, 7, 0}}), "0x5");
  EXPECT_EQ(shown(Value{Username{0}}), "root");
  EXPECT_EQ(shown(Value{Username{4711}}), "4711");
  EXPECT_EQ(shown(Value{CgroupPath{1, {}}}), "unified:/a");
  EXPECT_EQ(shown(Value{Strerror{2}}), "No such file or directory");
}

TEST(Render, Addresses) {
  EXPECT_EQ(shown(Value{Inet{2, {127, 0, 0, 1}}}), "127.0.0.1");
  EXPECT_EQ(shown(Value{Inet{10, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}}), "::1");
  EXPECT_EQ(shown(Value{Inet{99, {}}}), "<address of family 99>");
  EXPECT_EQ(shown(Value{MacAddress{{1, 2, 3, 4, 0xff, 6}}}), "01:02:03:04:FF:06");
}

class Utc : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Utc, TimesWithMicroseconds) {
  EXPECT_EQ(time_text("%H:%M:%S.%f %%f %Y", 1500000000), "00:00:01.500000 %f 1970");
  EXPECT_EQ(time_text("%S.%f", -500000000), "59.500000");
  EXPECT_EQ(time_text("", 0), "");
  EXPECT_EQ(time_text("100%", 0), "100%");
  EXPECT_EQ(shown(Value{Timestamp{2000000000, "%S"}}), "03");
}

}  // namespace
}  // namespace uscope::event
