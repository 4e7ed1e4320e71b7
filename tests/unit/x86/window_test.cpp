#include "x86/window.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;
using Reason = WindowRefusal::Reason;

Flow flow_of(const std::vector<uint8_t>& bytes) { return analyze(function(bytes)); }

TEST(Window, CoversWholeInstructions) {
  const auto bytes = code("55 4889e5 4883ec10 c9 c3");
  const auto window = window_at(flow_of(bytes), base);
  ASSERT_TRUE(window) << window.error().text();
  EXPECT_EQ(window->instructions.size(), 3u);
  EXPECT_EQ(window->end, base + 8);
  EXPECT_EQ(window->padding, 0u);
  EXPECT_EQ(window_at(flow_of(bytes), base, 1)->instructions.size(), 1u);
}

TEST(Window, AJumpIntoTheMiddleRulesItOut) {
  // push %rbp; 1: dec %edi; jne 1b; pop; ret
  const auto bytes = code("55 ffcf 75fc 5d c3");
  const auto window = window_at(flow_of(bytes), base);
  ASSERT_FALSE(window);
  EXPECT_EQ(window.error().reason, Reason::jumped_into);
  EXPECT_EQ(window.error().address, base + 1);
  // To its start is fine.
  const auto to_start = code("ffcf 75fc 31c0 c3");
  EXPECT_TRUE(window_at(flow_of(to_start), base));
}

TEST(Window, LandingPadsAndTableTargetsCountAsJumps) {
  const auto bytes = code("55 4889e5 31c0 c9 c3");
  FunctionCode f = function(bytes);
  f.landing_pads = {base + 4};
  EXPECT_EQ(window_at(analyze(f), base).error().reason, Reason::jumped_into);
}

TEST(Window, UpToAPlaceThatIsJumpedTo) {
  // test; je 1f; add; sub; 1: ret
  const auto bytes = code("85ff 7406 4801f8 83e807 c3");
  const Flow flow = flow_of(bytes);
  const auto window = window_up_to(flow, base + 10);
  ASSERT_TRUE(window) << window.error().text();
  EXPECT_EQ(window->start, base + 4);
  EXPECT_EQ(window->end, base + 10);
  EXPECT_EQ(window->padding, 0u);
  EXPECT_EQ(window_up_to(flow, base + 10, 2)->start, base + 7);
  // A call comes back behind itself, a jump into the window may be no leader there.
  const auto calls = code("85ff 7405 e800010000 c3");
  EXPECT_EQ(window_up_to(flow_of(calls), base + 9).error().reason, Reason::call_returns);
  const auto loop = code("85ff 7404 ffcf 75fc c3");
  EXPECT_EQ(window_up_to(flow_of(loop), base + 8).error().reason, Reason::jumped_into);
  EXPECT_TRUE(window_up_to(flow_of(loop), base + 8, 2));
}

TEST(Window, PaddingBehindAFunctionHelps) {
  const auto bytes = code("31c0 c3");
  const Flow flow = flow_of(bytes);
  EXPECT_EQ(window_at(flow, base).error().reason, Reason::function_ends);
  EXPECT_EQ(window_at(flow, base, 5, 1).error().reason, Reason::function_ends);
  const auto window = window_at(flow, base, 5, 13);
  ASSERT_TRUE(window);
  EXPECT_EQ(window->end, base + 3);
  EXPECT_EQ(window->padding, 2u);
}

TEST(Window, PaddingInsideHelpsOnlyUpToTheNextBlock) {
  // je 1f; xor; ret; nop; nop; 1: ret
  const auto bytes = code("7405 31c0 c3 9090 c3");
  const Flow flow = flow_of(bytes);
  const auto window = window_at(flow, base + 2);
  ASSERT_TRUE(window) << window.error().text();
  EXPECT_EQ(window->padding, 2u);
  const auto tight = code("7404 31c0 c3 90 c3");
  EXPECT_EQ(window_at(flow_of(tight), base + 2).error().reason, Reason::jumped_into);
}

TEST(Window, ACallMayOnlyBeLast) {
  const auto bytes = code("ffd0 4889c7 c3");
  EXPECT_EQ(window_at(flow_of(bytes), base).error().reason, Reason::call_returns);
  const auto last = code("4889c7 ffd0 c3");
  EXPECT_TRUE(window_at(flow_of(last), base));
}

TEST(Window, UnknownJumpsMakeOnlyOneInstructionSafe) {
  const auto bytes = code("50 488d0500000000 ffe7");
  const Flow flow = flow_of(bytes);
  ASSERT_FALSE(flow.complete());
  EXPECT_EQ(window_at(flow, base).error().reason, Reason::leaders_unknown);
  EXPECT_TRUE(window_at(flow, base + 1));
}

TEST(Window, NotAtAnInstruction) {
  const auto bytes = code("4889e5 c3");
  EXPECT_EQ(window_at(flow_of(bytes), base + 1).error().reason, Reason::no_instruction);
  EXPECT_EQ(window_before(flow_of(bytes), base + 1).error().reason, Reason::no_instruction);
}

TEST(WindowBefore, TakesInWhatStandsBeforeAnExit) {
  // add $8,%rsp; pop %rbx; pop %rbp; ret
  const auto bytes = code("5355 4883ec08 4883c408 5d 5b c3");
  const auto window = window_before(flow_of(bytes), base + 12);
  ASSERT_TRUE(window) << window.error().text();
  EXPECT_EQ(window->start, base + 6);
  EXPECT_EQ(window->instructions.size(), 4u);
  EXPECT_EQ(window->end, base + 13);
}

TEST(WindowBefore, UsesThePaddingBehindFirst) {
  // test; je 1f; mov; pop %rbx; ret; nop; nop; nop; 1: ret
  const auto bytes = code("85ff 7408 4889f8 5b c3 909090 c3");
  const auto window = window_before(flow_of(bytes), base + 8);
  ASSERT_TRUE(window) << window.error().text();
  EXPECT_EQ(window->start, base + 7);
  EXPECT_EQ(window->end, base + 9);
  EXPECT_EQ(window->padding, 3u);
  // Behind the function's last ret, and there the block's start does not matter.
  const auto last = window_before(flow_of(bytes), base + 12, near_jump_size, 4);
  ASSERT_TRUE(last) << last.error().text();
  EXPECT_EQ(last->start, base + 12);
}

TEST(WindowBefore, StopsAtABlocksStartAndAtCalls) {
  const auto jumped = code("85ff 7403 31c0 90 5b c3");  // je to the pop
  EXPECT_EQ(window_before(flow_of(jumped), base + 8).error().reason, Reason::jumped_into);
  const auto called = code("e800010000 5b c3");
  EXPECT_EQ(window_before(flow_of(called), base + 6).error().reason, Reason::call_returns);
  const auto begins = code("c3");
  EXPECT_EQ(window_before(flow_of(begins), base).error().reason, Reason::jumped_into);
}

}  // namespace
}  // namespace uscope::x86
