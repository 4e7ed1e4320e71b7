#include "x86/decode.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::code;

Instruction one(std::string_view hex, uint64_t address = 0x1000) {
  const auto bytes = code(hex);
  const auto instruction = decode(bytes, address);
  EXPECT_TRUE(instruction) << hex;
  if (!instruction) return {};
  EXPECT_EQ(instruction->length, bytes.size()) << hex;
  return *instruction;
}

TEST(Decode, KindsOfInstruction) {
  EXPECT_EQ(one("f3 0f 1e fa").kind, Kind::endbr64);
  EXPECT_EQ(one("90").kind, Kind::nop);
  EXPECT_EQ(one("0f 1f 44 00 00").kind, Kind::nop);
  EXPECT_EQ(one("66 2e 0f 1f 84 00 00 00 00 00").kind, Kind::nop);
  EXPECT_EQ(one("cc").kind, Kind::int3);
  EXPECT_EQ(one("0f 0b").kind, Kind::undefined);
  EXPECT_EQ(one("f4").kind, Kind::hlt);
  EXPECT_EQ(one("0f 05").kind, Kind::syscall);
  EXPECT_EQ(one("c3").kind, Kind::ret);
  EXPECT_EQ(one("f3 c3").kind, Kind::ret);
  EXPECT_EQ(one("c2 08 00").kind, Kind::ret);
  EXPECT_EQ(one("cb").kind, Kind::unusual_transfer);
  EXPECT_EQ(one("48 cf").kind, Kind::unusual_transfer);
  EXPECT_EQ(one("ff e0").kind, Kind::indirect_jump);
  EXPECT_EQ(one("3e ff e0").kind, Kind::indirect_jump);              // notrack
  EXPECT_EQ(one("f2 ff 25 00 00 00 00").kind, Kind::indirect_jump);  // bnd
  EXPECT_EQ(one("ff d0").kind, Kind::indirect_call);
  EXPECT_EQ(one("ff 2f").kind, Kind::unusual_transfer);
  EXPECT_EQ(one("55").kind, Kind::other);
}

TEST(Decode, TargetsOfDirectBranches) {
  EXPECT_EQ(one("eb fe").target, 0x1000u);
  EXPECT_EQ(one("e9 fb ff ff ff").target, 0x1000u);
  EXPECT_EQ(one("e8 00 01 00 00").target, 0x1105u);
  EXPECT_EQ(one("e8 00 01 00 00").kind, Kind::call);
  const Instruction near = one("0f 85 10 00 00 00");
  EXPECT_EQ(near.kind, Kind::conditional_jump);
  EXPECT_EQ(near.target, 0x1016u);
  EXPECT_EQ(near.condition, 5);
  EXPECT_EQ(near.relative_offset, 2);
  EXPECT_EQ(near.relative_size, 4);
  const Instruction brief = one("76 10");
  EXPECT_EQ(brief.condition, 6);
  EXPECT_EQ(brief.target, 0x1012u);
  EXPECT_EQ(brief.relative_size, 1);
  EXPECT_EQ(one("e2 02").kind, Kind::counted_jump);
  EXPECT_EQ(one("e3 02").target, 0x1004u);
  EXPECT_EQ(one("67 e3 02").kind, Kind::counted_jump);
  EXPECT_EQ(one("c7 f8 00 00 00 00").kind, Kind::xbegin);
  // The padded call of __tls_get_addr.
  EXPECT_EQ(one("66 66 48 e8 00 00 00 00").target, 0x1008u);
  EXPECT_EQ(one("66 66 48 e8 00 00 00 00").kind, Kind::call);
}

TEST(Decode, BranchesWithAnOperandSizePrefixLeadNobodyKnowsWhere) {
  auto instruction = decode(code("66 e9 00 00 00 00"), 0);
  ASSERT_TRUE(instruction);
  EXPECT_EQ(instruction->kind, Kind::unusual_transfer);
  EXPECT_EQ(instruction->relative_size, 0);
}

TEST(Decode, RipRelativeOperands) {
  const Instruction lea = one("48 8d 05 10 00 00 00");
  EXPECT_TRUE(lea.rip_relative);
  EXPECT_EQ(lea.memory_target, 0x1017u);
  EXPECT_EQ(lea.displacement_offset, 3);
  // An immediate behind the displacement counts for rip.
  const Instruction cmp = one("80 3d 10 00 00 00 00");
  EXPECT_EQ(cmp.memory_target, 0x1017u);
  EXPECT_EQ(cmp.displacement_offset, 2);
  EXPECT_EQ(one("c5 f9 6f 05 f0 ff ff ff").memory_target, 0xff8u);
  EXPECT_FALSE(one("48 8b 04 25 28 00 00 00").rip_relative);
  EXPECT_FALSE(one("48 8b 45 10").rip_relative);
  // Address-size prefix: eip-relative.
  EXPECT_EQ(one("67 48 8d 05 10 00 00 00", 0x1'0000'1000).memory_target, 0x1018u);
}

TEST(Decode, FlagsReadAndWritten) {
  EXPECT_EQ(one("0f 84 00 00 00 00").flags_read, zero_flag);
  EXPECT_EQ(one("48 39 c3").flags_written & arithmetic_flags, arithmetic_flags);
  EXPECT_EQ(one("48 ff c0").flags_written & carry_flag, 0u);  // inc keeps carry
  EXPECT_EQ(one("48 89 c3").flags_written, 0u);
}

TEST(Decode, NothingFromBrokenBytes) {
  EXPECT_FALSE(decode({}, 0));
  EXPECT_FALSE(decode(code("06"), 0));                                                  // not in 64-bit mode
  EXPECT_FALSE(decode(code("e9 00 00"), 0));                                            // cut off
  EXPECT_FALSE(decode(code("66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90"), 0));  // too long
}

TEST(Decoder, WalksARangeAndSaysWhereItStopped) {
  const auto bytes = code("55 48 89 e5 06 c3");
  Decoder decoder(bytes, 0x2000);
  EXPECT_EQ(decoder.next()->address, 0x2000u);
  EXPECT_EQ(decoder.next()->address, 0x2001u);
  EXPECT_FALSE(decoder.next());
  EXPECT_FALSE(decoder.at_end());
  EXPECT_EQ(decoder.position(), 0x2004u);
  decoder.skip_byte();
  EXPECT_EQ(decoder.next()->kind, Kind::ret);
  EXPECT_TRUE(decoder.at_end());
  EXPECT_FALSE(decoder.next());
}

}  // namespace
}  // namespace uscope::x86
