#include "x86/entry_site.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"
#include "x86/go_prologue.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;

EntrySite site(const char* hex, EntryRequest request = {}) {
  const auto bytes = code(hex);
  return cheapest_entry_site(analyze(function(bytes)), request);
}

TEST(KernelHandling, ByInstruction) {
  const auto handling = [](const char* hex, uint64_t address = base) {
    return kernel_handling(code(hex), address);
  };
  EXPECT_EQ(handling("90"), KernelHandling::emulated);
  EXPECT_EQ(handling("6690"), KernelHandling::emulated);
  EXPECT_EQ(handling("55"), KernelHandling::emulated);
  EXPECT_EQ(handling("4157"), KernelHandling::emulated);
  EXPECT_EQ(handling("4855"), KernelHandling::single_stepped);  // a REX prefix other than 41
  EXPECT_EQ(handling("ff7508"), KernelHandling::single_stepped);
  EXPECT_EQ(handling("6a01"), KernelHandling::single_stepped);
  EXPECT_EQ(handling("eb10"), KernelHandling::emulated);
  EXPECT_EQ(handling("e900000000"), KernelHandling::emulated);
  EXPECT_EQ(handling("e800000000"), KernelHandling::emulated);
  EXPECT_EQ(handling("7410"), KernelHandling::emulated);
  EXPECT_EQ(handling("0f8400000000"), KernelHandling::emulated);
  EXPECT_EQ(handling("e310"), KernelHandling::single_stepped);
  EXPECT_EQ(handling("c3"), KernelHandling::single_stepped);
  EXPECT_EQ(handling("f30f1efa"), KernelHandling::single_stepped);
  EXPECT_EQ(handling("4883ec08"), KernelHandling::single_stepped);
  EXPECT_EQ(handling("0f1f440000"), KernelHandling::optimised);
  EXPECT_EQ(handling("0f1f440000", 0x1ffc), KernelHandling::nop_by_version);  // over a page's end
  EXPECT_EQ(handling("0f1f00"), KernelHandling::nop_by_version);
  EXPECT_EQ(handling("662e0f1f840000000000"), KernelHandling::refused);
  EXPECT_EQ(handling("3effe0"), KernelHandling::refused);
  EXPECT_EQ(handling("f0480fb117"), KernelHandling::refused);
  EXPECT_EQ(handling("6666 48e800000000"), KernelHandling::refused);
  EXPECT_EQ(handling("cc"), KernelHandling::refused);
  EXPECT_EQ(handling("0f05"), KernelHandling::refused);
  EXPECT_EQ(handling("06"), KernelHandling::refused);
}

TEST(EntrySite, AfterEndbr) {
  const EntrySite s = site("f30f1efa 55 4889e5 c9 c3");
  EXPECT_EQ(s.address, base + 4);
  EXPECT_EQ(s.stack_adjustment, 0);
  EXPECT_EQ(s.handling, KernelHandling::emulated);
  EXPECT_EQ(s.changed, 0u);
}

TEST(EntrySite, TheEntryItselfWhenItIsCheap) { EXPECT_EQ(site("55 4889e5 c9 c3").address, base); }

TEST(EntrySite, BehindInstructionsThatKeepTheArguments) {
  // test %rdi,%rdi; je: the je is emulated
  const EntrySite jump = site("4885ff 7401 c3 c3");
  EXPECT_EQ(jump.address, base + 3);
  // sub $0x18,%rsp; mov %rdi,%rbx(!); push: rbx is no argument, but no longer what it was
  const EntrySite push = site("4883ec18 4889fb 55 5d 4883c418 c3");
  EXPECT_EQ(push.address, base + 7);
  EXPECT_EQ(push.stack_adjustment, 0x18);
  EXPECT_EQ(push.changed, bit(Register::rbx));
}

TEST(EntrySite, BehindAStoreIntoTheOwnFrame) {
  // sub $0x18,%rsp; mov %rbp,0x10(%rsp); lea 0x10(%rsp),%rbp; push
  const EntrySite s = site("4883ec18 48896c2410 488d6c2410 50 c3");
  EXPECT_EQ(s.address, base + 14);
  EXPECT_EQ(s.stack_adjustment, 0x18);
  // 0x18(%rsp) is the return address, 0x20(%rsp) an argument
  EXPECT_EQ(site("4883ec18 48896c2418 50 c3").address, base);
  EXPECT_EQ(site("4883ec18 48896c2420 50 c3").address, base);
}

TEST(EntrySite, NotBehindWhatTouchesArgumentsOrMemory) {
  EXPECT_EQ(site("31c0 55 5d c3").address, base);             // rax counts the vector arguments
  EXPECT_EQ(site("4889f7 55 5d c3").address, base);           // mov %rsi,%rdi
  EXPECT_EQ(site("c60700 55 5d c3").address, base);           // movb $0,(%rdi)
  EXPECT_EQ(site("ffd0 55 5d c3").address, base);             // a call
  EXPECT_EQ(site("4883e4e0 55 5d c3").address, base);         // and $-32,%rsp: the adjustment is not known
  EXPECT_EQ(site("f30f1efa 0f57c0 55 5d c3").address, base);  // xorps %xmm0,%xmm0
}

TEST(EntrySite, NotWhereALoopComesBack) {
  // 0: endbr64; 4: push-like loop head is a jump target
  EXPECT_EQ(site("f30f1efa 50 75fd c3").address, base);
  // A jump to the entry itself passes both.
  EXPECT_EQ(site("f30f1efa 50 75f9 c3").address, base + 4);
}

TEST(EntrySite, NotInAFunctionThatIsNotUnderstood) { EXPECT_EQ(site("f30f1efa 50 ffe7").address, base); }

TEST(EntrySite, FiveByteNopsWhereTheKernelKnowsThem) {
  const char* hex = "f30f1efa 55 0f1f440000 5d c3";
  EXPECT_EQ(site(hex).address, base + 4);
  const EntrySite s = site(hex, {.new_nops = true});
  EXPECT_EQ(s.address, base + 5);
  EXPECT_EQ(s.handling, KernelHandling::optimised);
  EXPECT_EQ(s.stack_adjustment, 8);
}

// cmp 0x10(%r14),%rsp; jbe slow; push %rbp; mov %rsp,%rbp; pop %rbp; ret; slow: mov %rax,8(%rsp); call; mov
// 8(%rsp),%rax; jmp 0
constexpr const char* go_small = "493b6610 7606 55 4889e5 5d c3 4889442408 e800100000 488b442408 ebe3";

TEST(GoStackCheck, SmallFrames) {
  const auto bytes = code(go_small);
  const auto check = find_go_stack_check(analyze(function(bytes)));
  ASSERT_TRUE(check);
  EXPECT_EQ(check->after, base + 6);
  EXPECT_EQ(check->slow_path, base + 12);
  EXPECT_EQ(check->clobbered, 0u);
  const EntrySite s = site(go_small, {.keep = go_argument_registers, .go = true});
  EXPECT_EQ(s.address, base + 6);
  EXPECT_TRUE(s.after_go_stack_check);
  EXPECT_EQ(s.handling, KernelHandling::emulated);
}

TEST(GoStackCheck, LargerAndHugeFramesAndOldGo) {
  // lea -0x80(%rsp),%r12; cmp 0x10(%r14),%r12; jbe; ret; slow: call; jmp 0
  const auto larger = code("4c8d642480 4d3b6610 7601 c3 e800100000 ebed");
  auto check = find_go_stack_check(analyze(function(larger)));
  ASSERT_TRUE(check);
  EXPECT_EQ(check->after, base + 11);
  EXPECT_EQ(check->clobbered, bit(Register::r12));
  // mov %rsp,%r12; sub $0x10000,%r12; jb slow; cmp 0x10(%r14),%r12; jbe slow; ret; slow: call; jmp 0
  const auto huge = code("4989e4 4981ec00000100 7207 4d3b6610 7601 c3 e800100000 ebe6");
  check = find_go_stack_check(analyze(function(huge)));
  ASSERT_TRUE(check);
  EXPECT_EQ(check->after, base + 18);
  // Go 1.16: mov %fs:-8,%rcx; cmp 0x10(%rcx),%rsp; jbe; ret; slow: call; jmp 0
  const auto old = code("64488b0c25f8ffffff 483b6110 7601 c3 e800100000 ebe9");
  check = find_go_stack_check(analyze(function(old)));
  ASSERT_TRUE(check);
  EXPECT_EQ(check->after, base + 15);
  EXPECT_EQ(check->clobbered, bit(Register::rcx));
}

TEST(GoStackCheck, HugeFramesOfOldGo) {
  // mov %fs:-8,%rcx; mov 0x10(%rcx),%rsi; cmp $-1314,%rsi; je slow; lea 0x3a0(%rsp),%rax; sub %rsi,%rax;
  // cmp $0x2348,%rax; jbe slow; ret; slow: call; jmp 0
  const auto bytes = code(
      "64488b0c25f8ffffff 488b7110 4881fedefaffff 7414 488d8424a0030000 4829f0 483d48230000 7601 c3 "
      "e800100000 ebcf");
  const auto check = find_go_stack_check(analyze(function(bytes)));
  ASSERT_TRUE(check);
  EXPECT_EQ(check->after, base + 41);
}

TEST(GoStackCheck, OnlyIfTheSlowPathStartsOver) {
  const auto elsewhere = code("493b6610 7601 c3 e800100000 c3");
  EXPECT_FALSE(find_go_stack_check(analyze(function(elsewhere))));
  const auto no_call = code("493b6610 7601 c3 ebf7");
  EXPECT_FALSE(find_go_stack_check(analyze(function(no_call))));
  const auto other = code("493b6620 7601 c3 e800100000 ebf2");
  EXPECT_FALSE(find_go_stack_check(analyze(function(other))));
  const auto plain = code("55 c3");
  EXPECT_FALSE(find_go_stack_check(analyze(function(plain))));
}

}  // namespace
}  // namespace uscope::x86
