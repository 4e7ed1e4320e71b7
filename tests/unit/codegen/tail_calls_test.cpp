// The codes that follow a function into the one it jumps to: what they are made of. That they count right in
// a running program is shown end to end (returns.case).
#include "codegen/tail_calls.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uscope::codegen {
namespace {

// r0 = map; exit
Program program_of_one() {
  Program program;
  program.maps.push_back({"events", MapKind::RingBuffer, 0, 0, 4096});
  Code code;
  code.name = "uretprobe:a:f";
  bpf_insn load{}, half{}, end{};
  load.code = BPF_LD | BPF_IMM | BPF_DW;
  end.code = BPF_JMP | BPF_EXIT;
  code.instructions = {load, half, end};
  code.maps = {{0, 0, false, 0}};
  program.codes.push_back(code);
  return program;
}

bool calls(const Code& code, int helper) {
  return std::ranges::any_of(code.instructions, [&](const bpf_insn& each) {
    return each.code == (BPF_JMP | BPF_CALL) && each.imm == helper;
  });
}

TEST(TailCalls, FinishRunsTheProbesCodeBehindItsGate) {
  Program program = program_of_one();
  TailCalls tail_calls(program);
  auto number = tail_calls.finish(0);
  ASSERT_TRUE(number);
  const Code& code = program.codes[*number];
  EXPECT_EQ(code.name, "uretprobe:a:f");
  ASSERT_GT(code.instructions.size(), 3u);
  EXPECT_TRUE(calls(code, BPF_FUNC_map_lookup_elem));
  EXPECT_TRUE(calls(code, BPF_FUNC_map_delete_elem));
  // The probe's own map is still the one its load names.
  uint32_t moved = uint32_t(code.instructions.size()) - 3;
  EXPECT_TRUE(std::ranges::any_of(
      code.maps, [&](const MapReference& each) { return each.instruction == moved && each.map == 0; }));
  EXPECT_EQ(code.instructions[moved].code, BPF_LD | BPF_IMM | BPF_DW);
  // The marks' map came after.
  ASSERT_EQ(program.maps.size(), 2u);
  EXPECT_EQ(program.maps[1].kind, MapKind::LruHash);
  EXPECT_EQ(program.maps[1].key_size, 24u);
}

TEST(TailCalls, EachCodeIsMadeOnce) {
  Program program = program_of_one();
  TailCalls tail_calls(program);
  EXPECT_EQ(*tail_calls.leave_mark({}), *tail_calls.leave_mark({}));
  EXPECT_NE(*tail_calls.leave_mark({}), *tail_calls.leave_mark(4));
  EXPECT_NE(*tail_calls.leave_mark(4), *tail_calls.pass_on(4));
  EXPECT_EQ(*tail_calls.finish(0), *tail_calls.finish(0));
  EXPECT_EQ(program.maps.size(), 2u);
}

TEST(TailCalls, AJumpThatIsAlwaysTakenNeedsNoGate) {
  Program program = program_of_one();
  TailCalls tail_calls(program);
  EXPECT_EQ(*tail_calls.only_if(0, {}), 0u);
  EXPECT_NE(*tail_calls.only_if(0, 5), 0u);
  EXPECT_FALSE(tail_calls.unreported());
  EXPECT_TRUE(tail_calls.count({}));
  EXPECT_TRUE(tail_calls.unreported());
}

TEST(TailCalls, EveryConditionHasAGateOfItsOwn) {
  Program program = program_of_one();
  TailCalls tail_calls(program);
  for (uint8_t condition = 0; condition < 16; ++condition) {
    auto number = tail_calls.only_if(0, condition);
    ASSERT_TRUE(number);
    // Every way through it ends, and jumps stay inside.
    const auto& code = program.codes[*number].instructions;
    EXPECT_EQ(code.back().code, BPF_JMP | BPF_EXIT);
    for (size_t i = 0; i < code.size(); ++i) {
      uint8_t op = BPF_OP(code[i].code);
      if (BPF_CLASS(code[i].code) != BPF_JMP || op == BPF_EXIT || op == BPF_CALL) continue;
      EXPECT_LT(i + 1 + size_t(code[i].off), code.size());
    }
  }
}

}  // namespace
}  // namespace uscope::codegen
