#include "codegen/assembler.h"

#include <gtest/gtest.h>

#include "codegen/disassemble.h"

namespace uscope::codegen {
namespace {

using enum Reg;

std::string text_of(const Assembler& code, const Assembler& prologue = {}) {
  auto made = code.finish(prologue);
  if (!made) return made.error().message();
  Program program;
  program.maps.push_back({"m", MapKind::Hash, 8, 8, 1});
  return disassemble(*made, program);
}

TEST(Assembler, WritesInstructions) {
  Assembler code;
  code.mov(R1, 5);
  code.mov(R2, int64_t(0x123456789a));
  code.load_map(R3, 0);
  code.alu(Alu::Add, R1, R2);
  code.alu(Alu::Arsh, R1, 3);
  code.load(Width::B4, R4, R10, -8);
  code.store(Width::B8, R9, 16, R4);
  code.store(Width::B1, R9, 0, 7);
  code.atomic(BPF_ADD | BPF_FETCH, Width::B8, R0, 0, R1);
  code.call(BPF_FUNC_map_lookup_elem);
  code.exit();
  EXPECT_EQ(text_of(code),
            "0: r1 = 5\n1: r2 = 0x123456789a\n3: r3 = map m\n5: r1 += r2\n6: r1 s>>= 3\n"
            "7: r4 = *(u32*)(r10 - 8)\n8: *(u64*)(r9 + 16) = r4\n9: *(u8*)(r9) = 7\n"
            "10: lock fetch *(u64*)(r0) += r1\n11: call map_lookup_elem\n12: exit\n");
}

TEST(Assembler, LeavesOutWhatCannotBeReached) {
  Assembler code;
  auto end = code.label(), skipped = code.label();
  code.jump_if(Cond::Eq, R1, 0, end);
  code.jump(end);
  code.mov(R7, int64_t(1) << 40);  // both halves go
  code.jump(skipped);
  code.bind(end);
  code.exit();
  code.bind(skipped);
  code.exit();
  EXPECT_EQ(text_of(code), "0: if r1 == 0 goto 2\n1: goto 2\n2: exit\n");
}

TEST(Assembler, PutsThePrologueFirst) {
  Assembler prologue, code;
  prologue.mov(R6, R1);
  prologue.load_map(R1, 0);
  auto again = code.label();
  code.bind(again);
  code.load_map(R2, 0);
  code.jump_if(Cond::SLt, R2, R3, again);
  code.exit();
  EXPECT_EQ(text_of(code, prologue),
            "0: r6 = r1\n1: r1 = map m\n3: r2 = map m\n5: if r2 s< r3 goto 3\n6: exit\n");
}

TEST(Assembler, RefusesJumpsThatAreTooLong) {
  Assembler code;
  auto end = code.label();
  code.jump_if(Cond::Eq, R1, 0, end);
  for (int i = 0; i < 40000; i++) code.mov(R0, 0);
  code.bind(end);
  code.exit();
  EXPECT_EQ(text_of(code), "the probe's code is too long: a jump over 40000 instructions");
}

TEST(Assembler, RefusesALabelThatWasNeverBound) {
  Assembler code;
  code.jump(code.label());
  EXPECT_EQ(text_of(code), "a jump of the generated code leads nowhere");
}

TEST(Assembler, PutsFunctionsBehindTheCode) {
  Assembler unused, used, code;
  unused.exit();
  used.use_frame(R8);
  used.store(Width::B8, R10, -8, R1);
  used.exit();
  code.load_function(R2, 1);
  code.call(BPF_FUNC_for_each_map_elem);
  code.exit();
  auto made = code.finish({}, {unused, used});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->functions, std::vector<uint32_t>{4});
  EXPECT_EQ(made->instructions[0].imm, 3);  // from the instruction behind it
  EXPECT_EQ(disassemble(*made, {}),
            "0: r2 = function 4\n2: call for_each_map_elem\n3: exit\n"
            "function 4:\n4: *(u64*)(r8 - 8) = r1\n5: exit\n");
}

}  // namespace
}  // namespace uscope::codegen
