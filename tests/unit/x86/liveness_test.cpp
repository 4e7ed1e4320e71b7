#include "x86/liveness.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;

Liveness at_entry(const char* hex) {
  const auto bytes = code(hex);
  return liveness_at(analyze(function(bytes)), base);
}

TEST(Liveness, FlagsAreDeadWhenOverwrittenFirst) {
  EXPECT_TRUE(at_entry("85ff 7401 c3 c3").flags_dead());  // test; je
  EXPECT_FALSE(at_entry("7401 c3 c3").flags_dead());      // je reads them
  EXPECT_TRUE(at_entry("55 4889e5 c3").flags_dead());     // nothing uses them up to the ret
  EXPECT_TRUE(at_entry("e800010000 c3").flags_dead());    // no convention keeps them across a call
  EXPECT_FALSE(at_entry("4811d8 c3").flags_dead());       // adc
  EXPECT_EQ(at_entry("48ffc0 7202 c3 90 c3").dead_flags & carry_flag, 0u);  // inc; jb: carry survives the inc
  EXPECT_FALSE(at_entry("48d3e0 7402 c3 90 c3").flags_dead());              // a shift by zero keeps them
}

TEST(Liveness, BothSidesOfABranchCount) {
  // jrcxz 1f; test; ret; 1: setc %al; ret     only one side reads the carry
  EXPECT_FALSE(at_entry("e303 85ff c3 0f92c0 c3").flags_dead());
  EXPECT_TRUE(at_entry("e303 85ff c3 85c0 c3").flags_dead());
}

TEST(Liveness, IndirectJumpsMayKeepThem) { EXPECT_FALSE(at_entry("ffe0").flags_dead()); }

TEST(Liveness, ATailJumpIsACall) { EXPECT_TRUE(at_entry("e900010000").flags_dead()); }

TEST(Liveness, RegistersOverwrittenBeforeTheyAreRead) {
  const Liveness mov = at_entry("4889f8 c3");  // mov %rdi,%rax
  EXPECT_NE(mov.dead_registers & bit(Register::rax), 0u);
  EXPECT_EQ(mov.dead_registers & bit(Register::rdi), 0u);
  EXPECT_EQ(mov.dead_registers & bit(Register::rcx), 0u);  // at a ret everything may be wanted
  EXPECT_NE(at_entry("31c0 c3").dead_registers & bit(Register::rax), 0u);
  EXPECT_EQ(at_entry("b001 c3").dead_registers & bit(Register::rax), 0u);  // mov $1,%al keeps the rest
}

TEST(Liveness, LoopsAndHugeFunctionsEnd) {
  EXPECT_TRUE(at_entry("ebfe").flags_dead());
  std::vector<uint8_t> many(5000, 0x90);
  many.push_back(0xc3);
  EXPECT_FALSE(liveness_at(analyze(function(many)), base).flags_dead());  // gave up: needed
}

TEST(Liveness, OutsideOfWhatIsKnownEverythingIsNeeded) {
  const auto bytes = code("c3");
  const Liveness unknown = liveness_at(analyze(function(bytes)), base + 100);
  EXPECT_EQ(unknown.dead_registers, 0u);
  EXPECT_EQ(unknown.dead_flags, 0u);
}

}  // namespace
}  // namespace uscope::x86
