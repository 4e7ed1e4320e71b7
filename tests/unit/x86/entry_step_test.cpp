#include "x86/entry_step.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::code;

std::optional<EntryStep> step(const char* hex) { return entry_step(code(hex)); }

TEST(EntryStep, WhatChangesNothing) {
  for (const char* hex : {"f30f1efa", "90", "6690", "0f1f440000"}) {
    ASSERT_TRUE(step(hex)) << hex;
    EXPECT_EQ(step(hex)->stack_change, 0) << hex;
    EXPECT_EQ(step(hex)->changed, 0u) << hex;
  }
}

TEST(EntryStep, ThePushOfARegister) {
  for (const char* hex : {"55", "53", "54", "4157", "4154", "6a05", "6800010000"}) {
    ASSERT_TRUE(step(hex)) << hex;
    EXPECT_EQ(step(hex)->stack_change, -8) << hex;
    EXPECT_EQ(step(hex)->changed, 0u) << hex;
  }
  EXPECT_FALSE(step("6655"));          // 16 bits
  EXPECT_FALSE(step("ff3500000000"));  // push of memory
  EXPECT_FALSE(step("9c"));            // pushf
}

TEST(EntryStep, TheStackPointerByAConstant) {
  EXPECT_EQ(step("4883ec18")->stack_change, -0x18);
  EXPECT_EQ(step("4881ec08100000")->stack_change, -0x1008);
  EXPECT_EQ(step("4883c480")->stack_change, -128);
  EXPECT_EQ(step("488d6424c8")->stack_change, -56);
  EXPECT_FALSE(step("4883e4f0"));  // and $-16
  EXPECT_FALSE(step("4829c4"));    // sub %rax
  EXPECT_FALSE(step("4889c4"));    // mov %rax
  EXPECT_FALSE(step("488d6008"));  // lea 8(%rax)
  EXPECT_FALSE(step("83ec18"));    // esp
  EXPECT_FALSE(step("5c"));        // pop %rsp
  EXPECT_FALSE(step("c8100000"));  // enter
}

TEST(EntryStep, WhatIsLostOfTheRegisters) {
  EXPECT_EQ(step("89f8")->changed, bit(Register::rax));            // mov %edi,%eax
  EXPECT_EQ(step("31c0")->changed, bit(Register::rax));            // xor %eax,%eax
  EXPECT_EQ(step("488d05aa000000")->changed, bit(Register::rax));  // lea
  EXPECT_EQ(step("4983c210")->changed, bit(Register::r10));        // add $16,%r10
  EXPECT_EQ(step("0fb6ff")->changed, bit(Register::rdi));          // movzbl %dil,%edi
  EXPECT_EQ(step("660fefc0")->changed, vector_bit(0));             // pxor %xmm0,%xmm0
  EXPECT_EQ(step("4885ff")->changed, 0u);                          // test
}

TEST(EntryStep, FlagsThatCanBeSetAgain) {
  for (const char* hex : {"4885ff", "83ff05", "31c0", "833d0000000001", "493b6610"})
    EXPECT_TRUE(step(hex)->can_repeat) << hex;
  for (const char* hex : {"4883c710", "4883ec18", "89f8", "01f8", "ffcf"})
    EXPECT_FALSE(step(hex)->can_repeat) << hex;
}

// A call must be seen before its first instruction faults.
TEST(EntryStep, OnlyMemoryThatIsThere) {
  EXPECT_TRUE(step("8b0500000000"));        // mov 0(%rip),%eax
  EXPECT_TRUE(step("64488b042528000000"));  // mov %fs:0x28,%rax
  EXPECT_TRUE(step("488b442408"));          // mov 8(%rsp),%rax
  EXPECT_TRUE(step("493b6610"));            // cmp 16(%r14),%rsp: Go
  EXPECT_FALSE(step("488b4708"));           // mov 8(%rdi),%rax
  EXPECT_FALSE(step("803f00"));             // cmpb $0,(%rdi)
  EXPECT_FALSE(step("488b4424f8"));         // below the stack pointer
  EXPECT_FALSE(step("488b04fc"));           // (%rsp,%rdi,8)
  EXPECT_FALSE(step("64488b00"));           // %fs:(%rax)
  EXPECT_FALSE(step("4d3b6610"));           // cmp 16(%r14),%r12
}

TEST(EntryStep, WhatWritesOrGoesElsewhere) {
  for (const char* hex :
       {"4889442408", "c6050000000001", "c3", "eb00", "e900000000", "7400", "e800000000", "ffe0", "0f05",
        "0f0b", "f4", "cc", "48f7f7", "0fa2", "0f31", "9d", "c9", "a4", "f0ff00"})
    EXPECT_FALSE(step(hex)) << hex;
}

}  // namespace
}  // namespace uscope::x86
