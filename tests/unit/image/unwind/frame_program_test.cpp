// Frame instructions, byte by byte, and the rules they stand for.
#include "image/unwind/frame_program.h"

#include <dwarf.h>
#include <gtest/gtest.h>

#include <vector>

#include "image/unwind/frame_entries.h"

namespace uscope::image {
namespace {

using Row = std::pair<uint64_t, UnwindRule>;

// A function at 0x1000 of 0x100 bytes, whose common part says CFA = rsp + 8, return address at CFA - 8.
std::vector<Row> run(std::vector<uint8_t> program, bool* whole = nullptr, bool is_signal_frame = false) {
  static constexpr uint8_t kCommon[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
  CommonEntry common;
  common.data_align = -8;
  common.is_signal_frame = is_signal_frame;
  common.program = kCommon;
  FunctionEntry entry;
  entry.begin = 0x1000;
  entry.end = 0x1100;
  entry.common = &common;
  entry.program = program;
  std::vector<Row> rows;
  bool ok =
      run_frame_program(entry, 0, [&](uint64_t at, const UnwindRule& rule) { rows.emplace_back(at, rule); });
  if (whole) *whole = ok;
  return rows;
}

TEST(FrameProgram, EntryThenPushThenFramePointer) {
  auto rows = run({DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,  // push rbp
                   DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6});                     // mov rsp, rbp
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].first, 0x1000u);
  EXPECT_EQ(rows[0].second.kind, UnwindKind::Register);
  EXPECT_EQ(rows[0].second.base, kStackPointer);
  EXPECT_EQ(rows[0].second.offset, 8);
  EXPECT_EQ(rows[0].second.return_address, -8);
  EXPECT_EQ(rows[0].second.saved[1], UnwindRule::kUnchanged);
  EXPECT_EQ(rows[1].first, 0x1001u);
  EXPECT_EQ(rows[1].second.offset, 16);
  EXPECT_EQ(rows[1].second.saved[1], -16);
  EXPECT_EQ(rows[2].first, 0x1004u);
  EXPECT_EQ(rows[2].second.base, kFramePointer);
}

TEST(FrameProgram, StateIsRememberedAndRestored) {
  auto rows = run({DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 32, DW_CFA_offset | 3, 3,
                   DW_CFA_advance_loc | 4, DW_CFA_remember_state, DW_CFA_def_cfa_offset, 8,
                   DW_CFA_restore | 3, DW_CFA_advance_loc | 1, DW_CFA_restore_state});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[2].second.offset, 8);
  EXPECT_EQ(rows[2].second.saved[0], UnwindRule::kUnchanged);
  EXPECT_EQ(rows[3].second.offset, 32);
  EXPECT_EQ(rows[3].second.saved[0], -24);
}

TEST(FrameProgram, AnUndefinedReturnAddressIsTheEnd) {
  auto rows = run({DW_CFA_undefined, 16});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].second.kind, UnwindKind::End);
}

TEST(FrameProgram, ALinkersStubs) {
  auto rows = run({DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,
                   DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].second.kind, UnwindKind::Plt);
  EXPECT_EQ(rows[0].second.offset, 8);
  EXPECT_EQ(rows[0].second.addend, 11);
}

TEST(FrameProgram, ARealignedStack) {
  // CFA = *(rbp - 8); rbp at rbp + 0, rbx at rbp - 16.
  auto rows = run({DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref,  //
                   DW_CFA_expression, 6, 2, DW_OP_breg6, 0,                       //
                   DW_CFA_expression, 3, 2, DW_OP_breg6, 0x70});
  ASSERT_EQ(rows.size(), 1u);
  const UnwindRule& rule = rows[0].second;
  EXPECT_EQ(rule.kind, UnwindKind::Dereferenced);
  EXPECT_EQ(rule.base, kFramePointer);
  EXPECT_EQ(rule.offset, -8);
  EXPECT_EQ(rule.saved_base, kFramePointer);
  EXPECT_EQ(rule.saved[0], -16);
  EXPECT_EQ(rule.saved[1], 0);
  EXPECT_EQ(rule.return_address, -8);  // of the CFA
}

TEST(FrameProgram, ASignalFrame) {
  auto rows = run({DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 0x01, DW_OP_deref,  //
                   DW_CFA_expression, 6, 3, DW_OP_breg7, 0xf8, 0x00,                    //
                   DW_CFA_expression, 16, 3, DW_OP_breg7, 0xa8, 0x01},
                  nullptr, true);
  ASSERT_EQ(rows.size(), 1u);
  const UnwindRule& rule = rows[0].second;
  EXPECT_EQ(rule.kind, UnwindKind::Dereferenced);
  EXPECT_EQ(rule.flags, UnwindRule::kSignalFrame);
  EXPECT_EQ(rule.offset, 160);
  EXPECT_EQ(rule.saved_base, kStackPointer);
  EXPECT_EQ(rule.saved[1], 120);
  EXPECT_EQ(rule.return_address, 168);
}

TEST(FrameProgram, WhatNoRuleCanSayIsUnknown) {
  // CFA = *(rsp + 8 * r9 + 8) + 8
  auto rows = run({DW_CFA_def_cfa_expression, 10, DW_OP_breg7, 8, DW_OP_breg9, 0, DW_OP_lit8, DW_OP_mul,
                   DW_OP_plus, DW_OP_deref, DW_OP_plus_uconst, 8});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].second.kind, UnwindKind::Unknown);
  // A return address in a register.
  rows = run({DW_CFA_register, 16, 0});
  EXPECT_EQ(rows[0].second.kind, UnwindKind::Unknown);
  // A frame pointer whose value is computed is lost, not unchanged.
  rows = run({DW_CFA_val_offset, 6, 1});
  EXPECT_EQ(rows[0].second.saved[1], UnwindRule::kLost);
}

TEST(FrameProgram, DamageEndsWhatIsKnown) {
  bool whole = true;
  auto rows = run({DW_CFA_advance_loc | 4, DW_CFA_restore_state}, &whole);
  EXPECT_FALSE(whole);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].second.kind, UnwindKind::Register);
  EXPECT_EQ(rows[1].first, 0x1004u);
  EXPECT_EQ(rows[1].second.kind, UnwindKind::Unknown);
  run({DW_CFA_def_cfa_expression, 200, DW_OP_breg7}, &whole);
  EXPECT_FALSE(whole);
}

TEST(FrameEntries, LyingLengthsEndTheWalk) {
  int seen = 0;
  auto count = [&](const FunctionEntry&) { ++seen; };
  std::vector<uint8_t> bytes = {0xf0, 0xff, 0xff, 0x7f, 0, 0, 0, 0};
  EXPECT_FALSE(for_each_entry({bytes, 0x1000, true}, count));
  // An entry whose common part would lie before the section.
  bytes = {12, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_FALSE(for_each_entry({bytes, 0x1000, true}, count));
  EXPECT_EQ(seen, 0);
}

}  // namespace
}  // namespace uscope::image
