// The codes that time calls: what they are made of. That they time right in running programs is shown end to
// end (times.case).
#include "codegen/pairing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/frame.h"

namespace uscope::codegen {
namespace {

// R6 = R1; R0 = took; exit
Program program_of_one() {
  Program program;
  Assembler out;
  out.mov(Reg::R6, Reg::R1);
  out.load(Width::B8, Reg::R0, Frame::kTook.base, Frame::kTook.offset);
  out.exit();
  Code code = out.finish(Assembler()).value();
  code.name = "uretprobe:a:f";
  code.reads_took = code.reads_result = true;
  program.codes.push_back(std::move(code));
  return program;
}

size_t calls(const Code& code, int helper) {
  return size_t(std::ranges::count_if(code.instructions, [&](const bpf_insn& each) {
    return each.code == (BPF_JMP | BPF_CALL) && each.imm == helper;
  }));
}

TEST(Pairing, GoesThroughAMapInTheKernel) {
  Program program = program_of_one();
  Pairing pairing(program, false);
  const Code enter = program.codes[pairing.enter({}).value()];
  const Code leave = program.codes[pairing.leave(0, {}).value()];
  EXPECT_EQ(calls(enter, BPF_FUNC_map_update_elem), 1u);
  EXPECT_EQ(calls(leave, BPF_FUNC_map_delete_elem), 1u);
  EXPECT_EQ(calls(leave, BPF_FUNC_get_attach_cookie), 1u);
  EXPECT_EQ(calls(enter, BPF_FUNC_probe_read_user), 0u);
  EXPECT_EQ(leave.name, "uretprobe:a:f");
  EXPECT_TRUE(leave.reads_result);
  ASSERT_EQ(program.maps.size(), 2u);
  EXPECT_EQ(program.maps[*pairing.counters()].max_entries, uint32_t(Pairing::kCounters));
}

TEST(Pairing, GoesByGoroutineInGoOnEitherEngine) {
  for (bool engine_pairs : {false, true}) {
    Program program = program_of_one();
    Pairing pairing(program, engine_pairs);
    const Code enter = program.codes[pairing.enter({152}).value()];
    EXPECT_EQ(calls(enter, BPF_FUNC_probe_read_user), 2u);  // goid, and the stack's top
    EXPECT_EQ(calls(enter, kEnterFunction), 0u);
  }
}

TEST(Pairing, IsTheEnginesWhereItCan) {
  Program program = program_of_one();
  Pairing pairing(program, true);
  EXPECT_EQ(calls(program.codes[pairing.enter({}).value()], kEnterFunction), 1u);
  const Code leave = program.codes[pairing.leave(0, {}).value()];
  EXPECT_EQ(calls(leave, kLeaveFunction), 1u);
  // Only the counters: no map of calls is made for nobody.
  EXPECT_EQ(program.maps.size(), 1u);
  // The context is kept once, so that an engine can see that R6 is nothing else.
  EXPECT_EQ(std::ranges::count_if(leave.instructions,
                                  [](const bpf_insn& each) {
                                    return each.code == (BPF_ALU64 | BPF_MOV | BPF_X) && each.dst_reg == 6;
                                  }),
            1);
}

TEST(Pairing, MakesEachCodeOnce) {
  Program program = program_of_one();
  Pairing pairing(program, false);
  EXPECT_EQ(*pairing.enter({}), *pairing.enter({}));
  EXPECT_EQ(*pairing.leave(0, {}), *pairing.leave(0, {}));
  EXPECT_NE(*pairing.leave(0, {}), *pairing.leave(0, {152}));
  EXPECT_NE(*pairing.leave(0, {}), *pairing.leave(0, {std::nullopt, -8}));
}

}  // namespace
}  // namespace uscope::codegen
