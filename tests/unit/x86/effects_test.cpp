#include "x86/effects.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::code;
constexpr RegisterSet rax = bit(Register::rax), rbx = bit(Register::rbx), rcx = bit(Register::rcx);
constexpr RegisterSet rsp = bit(Register::rsp), rbp = bit(Register::rbp);

Effects effects(std::string_view hex) { return effects_of(code(hex)).value_or(Effects()); }

TEST(Effects, MovesAndTheirWidths) {
  const Effects mov64 = effects("48 89 d8");  // mov %rbx,%rax
  EXPECT_EQ(mov64.read, rbx);
  EXPECT_EQ(mov64.written, rax);
  EXPECT_EQ(mov64.overwritten, rax);
  EXPECT_EQ(effects("89 d8").overwritten, rax);  // a 32-bit write clears the upper half
  const Effects mov8 = effects("88 d8");         // mov %bl,%al
  EXPECT_EQ(mov8.written, rax);
  EXPECT_EQ(mov8.overwritten, 0u);
  EXPECT_EQ(mov8.read, rax | rbx);
  EXPECT_EQ(effects("88 fc").read, rax | rbx);  // mov %bh,%ah
}

TEST(Effects, AConditionalMoveKeepsTheOldValue) {
  const Effects cmov = effects("48 0f 44 c3");  // cmove %rbx,%rax
  EXPECT_NE(cmov.read & rax, 0u);
  EXPECT_EQ(cmov.flags_read, zero_flag);
}

TEST(Effects, ClearingIdiomsReadNothing) {
  const Effects clear = effects("31 c0");  // xor %eax,%eax
  EXPECT_EQ(clear.read & rax, 0u);
  EXPECT_EQ(clear.overwritten, rax);
  EXPECT_NE(effects("31 d8").read & rax, 0u);
}

TEST(Effects, ImplicitOperandsCount) {
  const Effects push = effects("55");
  EXPECT_EQ(push.read, rbp | rsp);
  EXPECT_EQ(push.written, rsp);
  EXPECT_TRUE(push.writes_memory);
  const Effects leave = effects("c9");
  EXPECT_EQ(leave.written & (rsp | rbp), rsp | rbp);
  const Effects syscall = effects("0f 05");
  EXPECT_NE(syscall.written & rcx, 0u);
  const Effects rep = effects("f3 48 ab");  // rep stosq
  EXPECT_NE(rep.written & rcx, 0u);
  EXPECT_TRUE(rep.writes_memory);
}

TEST(Effects, LeaTouchesNoMemory) {
  const Effects lea = effects("48 8d 44 8b 10");  // lea 0x10(%rbx,%rcx,4),%rax
  EXPECT_EQ(lea.read, rbx | rcx);
  EXPECT_FALSE(lea.reads_memory);
  EXPECT_FALSE(lea.writes_memory);
  EXPECT_TRUE(effects("48 8b 03").reads_memory);
}

TEST(Effects, VectorRegisters) {
  const Effects legacy = effects("0f 28 c1");  // movaps %xmm1,%xmm0 keeps the upper half of ymm0
  EXPECT_EQ(legacy.overwritten, 0u);
  EXPECT_NE(legacy.read & vector_bit(1), 0u);
  EXPECT_EQ(effects("c5 f8 28 c1").overwritten, vector_bit(0));  // vmovaps clears it
}

TEST(Effects, FlagsThatMaySurvive) {
  EXPECT_EQ(effects("48 01 d8").flags_overwritten & arithmetic_flags, arithmetic_flags);
  EXPECT_EQ(effects("48 d3 e0").flags_overwritten, 0u);  // shl %cl,%rax: a count of 0 keeps them
  EXPECT_NE(effects("48 c1 e0 04").flags_overwritten & carry_flag, 0u);
  EXPECT_EQ(effects("f3 a6").flags_overwritten, 0u);  // repe cmpsb with rcx = 0
  EXPECT_EQ(effects("48 ff c0").flags_overwritten & carry_flag, 0u);
}

TEST(Operands, OfWhatFlowAnalysisReads) {
  auto load = operands_of(code("48 63 04 8a"));  // movslq (%rdx,%rcx,4),%rax
  ASSERT_TRUE(load);
  EXPECT_EQ(load->operation, Operation::sign_extend);
  EXPECT_EQ(load->first.reg, Register::rax);
  EXPECT_EQ(load->second.reg, Register::rdx);
  EXPECT_EQ(load->second.index, Register::rcx);
  EXPECT_EQ(load->second.scale, 4);
  EXPECT_EQ(load->second.bits, 32);
  auto sub = operands_of(code("48 81 ec 00 10 00 00"));
  ASSERT_TRUE(sub);
  EXPECT_EQ(sub->operation, Operation::sub);
  EXPECT_EQ(sub->first.reg, Register::rsp);
  EXPECT_EQ(sub->second.value, 0x1000);
  EXPECT_FALSE(operands_of(code("06")));
}

}  // namespace
}  // namespace uscope::x86
