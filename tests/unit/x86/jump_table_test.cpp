// Switch tables as gcc, clang and Go write them, byte for byte.
#include <gtest/gtest.h>

#include <cstring>

#include "unit/x86/code.h"
#include "x86/flow.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;

constexpr uint64_t table_address = 0x2000;

// A function at 0x1000 and its table at 0x2000.
struct Switch {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> table;

  void add_offset(uint64_t target, uint64_t from = table_address) {
    const auto offset = int32_t(target - from);
    append(&offset, sizeof offset);
  }
  void add_address(uint64_t target) { append(&target, sizeof target); }
  void append(const void* data, size_t size) {
    const auto* p = static_cast<const uint8_t*>(data);
    table.insert(table.end(), p, p + size);
  }
  std::function<OutsideCase(uint64_t address)> case_outside{};
  Flow analyze() const {
    FunctionCode f = function(bytes);
    f.case_outside = case_outside;
    f.read_image = [this](uint64_t address, uint64_t size) {
      return address < table_address ? Bytes()
                                     : slice(table, address - table_address, size).value_or(Bytes());
    };
    return x86::analyze(f);
  }
};

// cmp $2,%edi; ja +26 (the last ret); mov %edi,%edi; lea 0x2000(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add
// %rdx,%rax; notrack jmp *%rax; three cases of `xor %eax,%eax; ret`; default: ret
constexpr const char* pic_switch =
    "83ff02 771c 89ff 488d15f20f0000 486304ba 4801d0 3effe0 31c0c3 31c0c3 31c0c3 c3";
constexpr uint64_t first_case = base + 24;

TEST(JumpTable, PositionIndependentWithABound) {
  Switch s{code(pic_switch), {}};
  for (int i = 0; i < 3; ++i) s.add_offset(first_case + 3 * i);
  s.add_offset(first_case + 1);  // behind the table: must not be read
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  ASSERT_EQ(flow.tables().size(), 1u);
  EXPECT_EQ(flow.tables()[0].address, table_address);
  EXPECT_EQ(flow.tables()[0].entries, 3u);
  EXPECT_EQ(flow.tables()[0].entry_size, 4);
  EXPECT_TRUE(flow.tables()[0].bounded);
  EXPECT_EQ(flow.exits().size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(flow.is_leader(first_case + 3 * i));
  EXPECT_FALSE(flow.is_leader(first_case + 1));
}

TEST(JumpTable, ACaseOutsideOfTheFunctionIsAGap) {
  Switch s{code(pic_switch), {}};
  s.add_offset(first_case);
  s.add_offset(0x5000);
  s.add_offset(first_case + 3);
  EXPECT_EQ(s.analyze().gap(), Gap::table_leaves_function);
}

TEST(JumpTable, AnImpossibleCaseMayPointBehindTheFunction) {
  // The same with two cases, for the values 0 and 2.
  Switch s{code("83ff02 7719 89ff 488d15f20f0000 486304ba 4801d0 3effe0 31c0c3 31c0c3 c3"), {}};
  s.add_offset(first_case);
  s.add_offset(base + s.bytes.size());
  s.add_offset(first_case + 3);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.exits().size(), 3u);
}

TEST(JumpTable, AnUnreadableTableIsAGap) {
  Switch s{code(pic_switch), {}};
  EXPECT_EQ(s.analyze().gap(), Gap::unrecovered_jump);
  s.add_offset(first_case);  // one entry of three
  EXPECT_EQ(s.analyze().gap(), Gap::unrecovered_jump);
}

TEST(JumpTable, AMaskedIndexIsOnlyAnUpperBound) {
  // and $3,%edi; lea; movslq; add; jmp; cases: the compiler knew that 3 never occurs
  Switch s{code("83e703 488d15f60f0000 486304ba 4801d0 ffe0 31c0c3 31c0c3 31c0c3"), {}};
  for (int i = 0; i < 3; ++i) s.add_offset(base + 19 + 3 * i);
  s.append("text", 4);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  ASSERT_EQ(flow.tables().size(), 1u);
  EXPECT_EQ(flow.tables()[0].entries, 3u);
  EXPECT_FALSE(flow.tables()[0].bounded);
  EXPECT_EQ(flow.exits().size(), 3u);
}

TEST(JumpTable, WithoutABoundReadingStopsBetweenInstructions) {
  // lea; movslq (%rdx,%rdi,4),%rax; add; jmp; cases
  Switch s{code("488d15f90f0000 486304ba 4801d0 ffe0 31c0c3 31c0c3"), {}};
  s.add_offset(base + 16);
  s.add_offset(base + 19);
  s.add_offset(base + 17);  // the next table's
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete());
  EXPECT_EQ(flow.tables()[0].entries, 2u);
}

TEST(JumpTable, WithoutABoundACaseOutsideIsAGap) {
  // lea; movslq (%rdx,%rdi,4),%rax; add; jmp; inc %eax; inc %eax; ret
  Switch s{code("488d15f90f0000 486304ba 4801d0 ffe0 ffc0 ffc0 c3"), {}};
  s.add_offset(base + 16);
  s.add_offset(0x5000);
  s.add_offset(base + 18);
  s.add_offset(0x6000);
  auto answer = [&](OutsideCase what) {
    s.case_outside = [=](uint64_t address) { return address == 0x5000 ? what : OutsideCase::none; };
    return s.analyze();
  };
  EXPECT_TRUE(answer(OutsideCase::none).complete()) << "the table ends there";
  EXPECT_FALSE(answer(OutsideCase::none).is_leader(base + 18));
  EXPECT_EQ(answer(OutsideCase::maybe).gap(), Gap::table_leaves_function) << "it goes on";
  EXPECT_TRUE(answer(OutsideCase::maybe).is_leader(base + 18));
  EXPECT_EQ(answer(OutsideCase::part).gap(), Gap::table_leaves_function);
  EXPECT_TRUE(answer(OutsideCase::part).is_leader(base + 18));
  // As the last entry.
  s.table.resize(8);
  EXPECT_TRUE(answer(OutsideCase::maybe).complete());
  EXPECT_EQ(answer(OutsideCase::part).gap(), Gap::table_leaves_function);
}

TEST(JumpTable, ABaseSpiltToTheStackIsFoundAgain) {
  // push %rbx; lea table(%rip),%rdx; mov %rdx,-8(%rsp); call; mov -8(%rsp),%rdx; movslq (%rdx,%rbx,4),%rax;
  // add %rdx,%rax; jmp *%rax; cases `pop %rbx; ret`
  Switch s{code("53 488d15f80f0000 48895424f8 e800100000 488b5424f8 4863049a 4801d0 ffe0 5bc3 5bc3"), {}};
  s.add_offset(base + 32);
  s.add_offset(base + 34);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.exits().size(), 2u);
}

TEST(JumpTable, OffsetsFromAPlaceOtherThanTheTable) {
  // printf's computed goto: lea label(%rip),%rcx; lea table(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add
  // %rcx,%rax; jmp *%rax
  Switch s{code("488d0d10000000 488d15f20f0000 486304ba 4801c8 ffe0 31c0c3 31c0c3"), {}};
  s.add_offset(base + 23, base + 23);
  s.add_offset(base + 26, base + 23);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.exits().size(), 2u);
}

TEST(JumpTable, OneEntryWorkedOutByTheCompiler) {
  // movslq table(%rip),%rax; lea table(%rip),%rsi; add %rsi,%rax; jmp *%rax; ret
  Switch s{code("486305f90f0000 488d35f20f0000 4801f0 ffe0 c3"), {}};
  s.add_offset(base + 19);
  EXPECT_TRUE(s.analyze().complete());
}

TEST(JumpTable, PositionDependentAddresses) {
  // cmp $1,%edi; ja; mov %edi,%edi; jmp *0x2000(,%rdi,8); cases
  Switch s{code("83ff01 770f 89ff ff24fd00200000 31c0c3 31c0c3 c3"), {}};
  s.add_address(base + 14);
  s.add_address(base + 17);
  s.add_address(0);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.tables()[0].entry_size, 8);
  EXPECT_EQ(flow.exits().size(), 3u);
}

TEST(JumpTable, GoUsesAddressesThroughARegister) {
  // cmp $2,%rax; jae; lea table(%rip),%rcx; jmp *(%rcx,%rax,8); cases; ret
  Switch s{code("4883f802 730e 488d0df30f0000 ff24c1 90 c3 90 c3 c3"), {}};
  s.add_address(base + 16);
  s.add_address(base + 18);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.tables()[0].entries, 2u);
}

TEST(JumpTable, ATableOfFunctionsIsATailCall) {
  Switch s{code("89ff ff24fd00200000"), {}};
  s.add_address(0x5000);
  s.add_address(0x6000);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.exits()[0].kind, ExitKind::indirect_tail_jump);
  Switch zeros{s.bytes, std::vector<uint8_t>(16)};  // relocations not applied
  EXPECT_EQ(zeros.analyze().gap(), Gap::unrecovered_jump);
}

TEST(JumpTable, SwitchesInsideCasesAreFollowed) {
  // The first switch's only case is the second switch.
  Switch s{code("488d15f90f0000 486304ba 4801d0 ffe0"
                "488d15f10f0000 486304b2 4801d0 ffe0 c3"),
           {}};
  // Second table at 0x1010 + 7 + 0xff1 = 0x2008.
  s.add_offset(base + 16);
  s.append("none", 4);
  s.add_offset(base + 32, table_address + 8);
  const Flow flow = s.analyze();
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.tables().size(), 2u);
  EXPECT_EQ(flow.exits().size(), 1u);
}

}  // namespace
}  // namespace uscope::x86
