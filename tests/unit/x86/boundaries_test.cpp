#include "x86/boundaries.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;
using Answer = Boundary::Answer;

TEST(Boundaries, StartsAndInsides) {
  // push %rbp; lea 0x10(%rip),%rax; pop %rbp; ret
  const auto bytes = code("55 488d0510000000 5d c3");
  const Boundaries boundaries(function(bytes));
  EXPECT_EQ(boundaries.at(base).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 1).answer, Answer::start);
  for (uint64_t inside = base + 2; inside < base + 8; ++inside) {
    EXPECT_EQ(boundaries.at(inside).answer, Answer::inside) << inside;
  }
  EXPECT_EQ(boundaries.at(base + 5).text(base + 5), "0x1005 is inside the 7-byte instruction at 0x1001");
  EXPECT_EQ(boundaries.at(base + 8).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 9).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 10).answer, Answer::outside);
  EXPECT_EQ(boundaries.at(base - 1).answer, Answer::outside);
}

TEST(Boundaries, CodeThatNothingKnownReachesIsSweptWhenTheSweepHolds) {
  const auto bytes = code("c3 90 488d0510000000 c3");
  const Boundaries boundaries(function(bytes));
  EXPECT_EQ(boundaries.at(base + 2).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 4).answer, Answer::inside);
}

TEST(Boundaries, DataAmongTheCodeCannotBeKnown) {
  // jmp +4; four bytes of data that swallow the next instruction when swept; ret
  const auto bytes = code("eb 04 00 00 48 b8 31 c0 c3 00 00 00 00 00");
  const Boundaries boundaries(function(bytes));
  EXPECT_EQ(boundaries.at(base + 6).answer, Answer::start);   // reached
  EXPECT_EQ(boundaries.at(base + 7).answer, Answer::inside);  // of a reached one
  EXPECT_EQ(boundaries.at(base + 8).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 2).answer, Answer::unknown);
  EXPECT_EQ(boundaries.at(base + 9).answer, Answer::unknown);
  EXPECT_NE(boundaries.at(base + 2).text(base + 2).find("cannot be known"), std::string::npos);
}

TEST(Boundaries, UndecodableBytesMakeTheUnreachedUnknown) {
  const auto bytes = code("31c0 c3 06 06 90");
  const Boundaries boundaries(function(bytes));
  EXPECT_EQ(boundaries.at(base + 1).answer, Answer::inside);
  EXPECT_EQ(boundaries.at(base + 3).answer, Answer::unknown);
  EXPECT_EQ(boundaries.at(base + 5).answer, Answer::unknown);
}

TEST(Boundaries, JumpingOverAPrefixMakesTwoStarts) {
  // je 1f; lock 1: cmpxchg %rdx,(%rdi); ret     as glibc does it
  const auto bytes = code("74 01 f0 48 0f b1 17 c3");
  const Boundaries boundaries(function(bytes));
  EXPECT_EQ(boundaries.at(base + 2).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 3).answer, Answer::start);
  EXPECT_EQ(boundaries.at(base + 4).answer, Answer::inside);
  EXPECT_TRUE(boundaries.flow().complete());
}

TEST(Boundaries, NoBytes) {
  EXPECT_EQ(Boundaries(FunctionCode()).at(0).answer, Answer::outside);
  EXPECT_EQ(Boundaries(function({})).at(base).answer, Answer::outside);
}

}  // namespace
}  // namespace uscope::x86
