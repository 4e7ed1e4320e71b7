#include "x86/flow.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;

TEST(Flow, StraightCodeHasOneExit) {
  const auto bytes = code("f30f1efa 55 4889e5 5d c3");
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  ASSERT_EQ(flow.exits().size(), 1u);
  EXPECT_EQ(flow.exits()[0].kind, ExitKind::ret);
  EXPECT_EQ(flow.exits()[0].address, base + 9);
  EXPECT_EQ(flow.leaders(), std::vector<uint64_t>{base});
  EXPECT_EQ(flow.instructions().size(), 5u);
}

TEST(Flow, BothSidesOfABranchAndItsLeader) {
  // test %edi,%edi; je 1f; mov $1,%eax; ret; 1: xor %eax,%eax; ret
  const auto bytes = code("85ff 7406 b801000000 c3 31c0 c3");
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(flow.complete());
  EXPECT_EQ(flow.exits().size(), 2u);
  EXPECT_TRUE(flow.is_leader(base + 10));
  EXPECT_FALSE(flow.has_leader(base + 1, base + 10));
}

TEST(Flow, TailJumpsAreExits) {
  const auto bytes = code("85ff 0f84f8000000 e9f3010000");
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(flow.complete());
  ASSERT_EQ(flow.exits().size(), 2u);
  EXPECT_EQ(flow.exits()[0].kind, ExitKind::conditional_tail_jump);
  EXPECT_EQ(flow.exits()[0].condition, 4);
  EXPECT_EQ(flow.exits()[0].target, 0x1100u);
  EXPECT_EQ(flow.exits()[1].kind, ExitKind::tail_jump);
  EXPECT_EQ(flow.exits()[1].target, 0x1200u);
}

TEST(Flow, AJumpToTheOwnEntryIsNoExit) {
  const auto bytes = code("ffcf 75fc c3");
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(flow.complete());
  EXPECT_EQ(flow.exits().size(), 1u);
}

TEST(Flow, PlainPointersAreTailCalls) {
  for (const char* hex : {"ffe7",                      // jmp *%rdi
                          "488b07 ff6010",             // mov (%rdi),%rax; jmp *0x10(%rax)
                          "ff2500100000",              // jmp *GOT(%rip)
                          "50 e800010000 59 ffe0"}) {  // push; call; pop %rcx; jmp *%rax
    const auto bytes = code(hex);
    const Flow flow = analyze(function(bytes));
    EXPECT_TRUE(flow.complete()) << hex << ": " << flow.gap_text();
    ASSERT_EQ(flow.exits().size(), 1u) << hex;
    EXPECT_EQ(flow.exits()[0].kind, ExitKind::indirect_tail_jump) << hex;
  }
}

TEST(Flow, AnIndirectJumpInsideAFrameStaysInTheFunction) {
  const auto bytes = code("50 ffe7");  // push %rax; jmp *%rdi
  const Flow flow = analyze(function(bytes));
  EXPECT_EQ(flow.gap(), Gap::unrecovered_jump);
  EXPECT_EQ(flow.gap_address(), base + 1);
}

TEST(Flow, ATailCallMustNotBeClaimedWhereLabelsHaveAddresses) {
  // lea 1f(%rip),%rax; mov %rax,(%rdi); jmp *(%rsi); 1: ret
  const auto bytes = code("488d0505000000 488907 ff26 c3");
  const Flow flow = analyze(function(bytes));
  EXPECT_FALSE(flow.complete());
  FunctionCode with_pointer = function(bytes);
  const auto plain = code("ff26 c3");
  with_pointer = function(plain);
  with_pointer.code_pointers = {base + 2};
  EXPECT_EQ(analyze(with_pointer).gap(), Gap::unrecovered_jump);
}

// Each has the address of what is behind it, as an immediate or a displacement.
TEST(Flow, WhereCodeIsFixedANumberMayBeALabel) {
  for (const char* hex :
       {"b805100000", "480506100000", "488d8007100000", "48b80a10000000000000", "c705000100000a100000",
        "4863048508100000", "668180091000000000", "83800710000001"}) {
    const auto bytes = code(std::string(hex) + "ffe7");  // jmp *%rdi
    FunctionCode f = function(bytes);
    const uint64_t label = base + bytes.size() - 2;
    EXPECT_FALSE(analyze(f).is_leader(label)) << hex;
    f.is_fixed = true;
    EXPECT_TRUE(analyze(f).is_leader(label)) << hex;
    EXPECT_EQ(analyze(f).gap(), Gap::unrecovered_jump) << hex;
  }
  // A part of two numbers is none.
  const auto bytes = code("c7800000000310000000 50 c3");
  FunctionCode f = function(bytes);
  f.is_fixed = true;
  EXPECT_EQ(analyze(f).leaders(), std::vector<uint64_t>{base});
}

TEST(Flow, CallsThatDoNotReturnEndAFunction) {
  for (const char* hex :
       {"50 e800010000", "50 e800010000 90 660f1f440000", "ffd0", "0f0b", "f4", "b83c000000 0f05"}) {
    const auto bytes = code(hex);
    const Flow flow = analyze(function(bytes));
    EXPECT_TRUE(flow.complete()) << hex << ": " << flow.gap_text();
    ASSERT_EQ(flow.exits().size(), 1u) << hex;
    EXPECT_EQ(flow.exits()[0].kind, ExitKind::no_return);
  }
}

TEST(Flow, KnownNoReturnFunctionsEndTheirPath) {
  const auto bytes = code("e8fb000000 06");
  FunctionCode f = function(bytes);
  f.never_returns = [](uint64_t target) { return target == 0x1100; };
  EXPECT_TRUE(analyze(f).complete());
  const auto more = code("e8fb000000 c3");
  FunctionCode g = function(more);
  EXPECT_EQ(analyze(g).exits()[0].kind, ExitKind::ret);
  g.never_returns = f.never_returns;
  EXPECT_EQ(analyze(g).exits()[0].kind, ExitKind::no_return);
}

TEST(Flow, GapsAreNamed) {
  const auto off_end = code("55 4889e5");
  EXPECT_EQ(analyze(function(off_end)).gap(), Gap::falls_off_end);
  const auto broken = code("55 06");
  EXPECT_EQ(analyze(function(broken)).gap(), Gap::undecodable);
  EXPECT_EQ(analyze(function(broken)).gap_text(), "the bytes at 0x1001 are no instruction");
  const auto far = code("48cb");
  EXPECT_EQ(analyze(function(far)).gap(), Gap::unusual_instruction);
  const auto middle = code("75ff c0c3c3c3");  // jne into itself
  EXPECT_EQ(analyze(function(middle)).gap(), Gap::overlapping);
  EXPECT_EQ(analyze(FunctionCode()).gap(), Gap::empty);
}

// A function of `size` bytes, and what lies between it and the next.
FunctionCode with_filler(const std::vector<uint8_t>& bytes, size_t size) {
  FunctionCode f;
  f.parts = {{base, Bytes(bytes).first(size)}};
  f.up_to_next = CodeRange{base, bytes};
  return f;
}

TEST(Flow, RunningThroughFillerIsAJumpToTheNextFunction) {
  const auto bytes = code("4839d1 7220 0f1f00 90");  // cmp; jb elsewhere; nopl; nop
  const Flow flow = analyze(with_filler(bytes, 5));
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_TRUE(flow.runs_through_filler());
  ASSERT_EQ(flow.exits().size(), 2u);
  EXPECT_EQ(flow.exits()[0].kind, ExitKind::conditional_tail_jump);
  EXPECT_EQ(flow.exits()[1].kind, ExitKind::tail_jump);
  EXPECT_EQ(flow.exits()[1].address, base + 8);
  EXPECT_EQ(flow.exits()[1].target, base + 9);
  // Its own code alone does not show it.
  const auto alone = code("4839d1 7220");
  EXPECT_EQ(analyze(function(alone)).gap(), Gap::falls_off_end);
}

TEST(Flow, RunningOnInsideAFrameIsNoEnd) {
  const auto bytes = code("55 31c0 0f1f00");  // push %rbp; xor; nopl
  EXPECT_EQ(analyze(with_filler(bytes, 3)).gap(), Gap::falls_off_end);
  // Without a nop there is no place for a probe that only who leaves passes.
  const auto none = code("31c0");
  EXPECT_EQ(analyze(with_filler(none, 2)).gap(), Gap::falls_off_end);
}

TEST(Flow, ATrapInTheFillerEndsAFunction) {
  const auto bytes = code("4889ec 5d cccccc");
  const Flow flow = analyze(with_filler(bytes, 4));
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  ASSERT_EQ(flow.exits().size(), 1u);
  EXPECT_EQ(flow.exits()[0].kind, ExitKind::no_return);
}

TEST(Flow, FillerBehindACallThatDoesNotReturnIsJustThat) {
  const auto bytes = code("50 e800010000 0f1f00");
  const Flow flow = analyze(with_filler(bytes, 6));
  EXPECT_TRUE(flow.complete());
  EXPECT_FALSE(flow.runs_through_filler());
  // Nor is it more where another part does run off its end.
  const auto cold = code("31c0");
  FunctionCode f = with_filler(bytes, 6);
  f.parts.push_back({0x2000, cold});
  f.landing_pads = {0x2000};
  const Flow both = analyze(f);
  EXPECT_EQ(both.gap(), Gap::falls_off_end);
  for (const Exit& exit : both.exits()) EXPECT_EQ(exit.kind, ExitKind::no_return);
}

TEST(Flow, KnowsAllWaysToAPlace) {
  // test; je 1f; jmp 1f; 2: dec; jne 2b; 1: ret
  const auto bytes = code("85ff 7406 eb04 ffcf 75fc c3");
  FunctionCode f = function(bytes);
  f.code_pointers = {base + 6};
  const Flow flow = analyze(f);
  ASSERT_TRUE(flow.complete()) << flow.gap_text();
  auto ways = flow.ways_to(base + 10);
  ASSERT_TRUE(ways);
  ASSERT_EQ(ways->size(), 3u);
  EXPECT_EQ((*ways)[0]->address, base + 2);
  EXPECT_EQ((*ways)[1]->address, base + 4);
  EXPECT_EQ((*ways)[2]->address, base + 8);
  EXPECT_FALSE(flow.ways_to(base + 6));  // something has its address
  EXPECT_FALSE(flow.ways_to(base));      // the entry
}

TEST(Flow, DoesNotClaimToKnowHiddenWays) {
  const auto bytes = code("85ff 7402 31c0 c3");  // test; je 1f; xor; 1: ret
  const uint64_t ret = base + 6;
  EXPECT_TRUE(analyze(function(bytes)).ways_to(ret));
  FunctionCode pad = function(bytes);
  pad.landing_pads = {ret};
  EXPECT_FALSE(analyze(pad).ways_to(ret));
  const auto called = code("85ff e801000000 90 c3");  // call 1f; nop; 1: ret
  EXPECT_FALSE(analyze(function(called)).ways_to(base + 8));
  const auto taken = code("488d0502000000 7400 c3");  // lea 1f(%rip),%rax; je 1f; 1: ret
  EXPECT_FALSE(analyze(function(taken)).ways_to(base + 9));
  // ret; jmp back to it, which nothing leads to
  const auto dead = code("7400 c3 ebfd");
  EXPECT_FALSE(analyze(function(dead)).ways_to(base + 2));
  const auto gap = code("7400 c3 06 ffe0");
  EXPECT_FALSE(analyze(function(gap)).ways_to(base + 2));
}

TEST(Flow, ColdPartsBelongToTheFunction) {
  const auto hot = code("85ff 0f84f8000000 c3");    // je 0x1100
  const auto cold = code("e8fbff0000 e9fefeffff");  // call; jmp back to the ret
  FunctionCode f = function(hot);
  f.parts.push_back({0x1100, cold});
  const Flow flow = analyze(f);
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  ASSERT_EQ(flow.exits().size(), 1u);
  EXPECT_EQ(flow.exits()[0].address, base + 8);

  FunctionCode found = function(hot);
  found.part_at = [&](uint64_t address) -> std::optional<CodeRange> {
    if (address < 0x1100 || address >= 0x1100 + cold.size()) return std::nullopt;
    return CodeRange{0x1100, cold};
  };
  const Flow adopted = analyze(found);
  EXPECT_EQ(adopted.parts().size(), 2u);
  EXPECT_EQ(adopted.exits().size(), 1u);
}

TEST(Flow, LandingPadsAreReachedAndLead) {
  const auto bytes = code("e800010000 c3 4889c7 e800020000");
  FunctionCode f = function(bytes);
  f.landing_pads = {base + 6};
  const Flow flow = analyze(f);
  EXPECT_TRUE(flow.complete());
  EXPECT_TRUE(flow.is_leader(base + 6));
  EXPECT_NE(flow.find(base + 9), nullptr);
  ASSERT_EQ(flow.exits().size(), 2u);
  EXPECT_EQ(flow.exits()[1].kind, ExitKind::no_return);
}

TEST(Flow, AnExitThatNothingLeadsToIsAGapUnlessTold) {
  // call; ret; call deferreturn; ret     a Go function goes on at 6 after a recovered panic
  const auto bytes = code("e800010000 c3 e800020000 c3");
  FunctionCode f = function(bytes);
  EXPECT_EQ(analyze(f).gap(), Gap::unreached_exit);
  EXPECT_EQ(analyze(f).gap_address(), base + 11);
  f.landing_pads = {base + 6};
  EXPECT_TRUE(analyze(f).complete());
  EXPECT_EQ(analyze(f).exits().size(), 2u);
}

TEST(Flow, BranchesOfUnreachedCodeStillMakeLeaders) {
  // push; mov; ret; jmp to the mov
  const auto bytes = code("55 4889e5 c3 ebfa");
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(flow.complete());
  EXPECT_TRUE(flow.is_leader(base + 1));
}

// Work that grew with the square of the size would take minutes here.
TEST(Flow, HostileCodeTakesLinearTime) {
  const auto unit = code("7409 488d0500000000 ffe0");  // je over; lea next(%rip),%rax; jmp *%rax
  std::vector<uint8_t> jumps;
  for (int n = 0; n < 20'000; ++n) jumps.insert(jumps.end(), unit.begin(), unit.end());
  EXPECT_FALSE(analyze(function(jumps)).complete());
  const std::vector<uint8_t> nops(1 << 20, 0x90);
  EXPECT_EQ(analyze(function(nops)).gap(), Gap::falls_off_end);
}

TEST(Flow, CallingIntoTheOwnBodyMakesALeader) {
  const auto bytes = code("e800000000 58 c3");  // call next; pop %rax: how old code reads rip
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(flow.is_leader(base + 5));
}

}  // namespace
}  // namespace uscope::x86
