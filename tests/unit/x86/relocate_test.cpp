#include "x86/relocate.h"

#include <gtest/gtest.h>

#include <cstring>

#include "unit/x86/code.h"
#include "x86/encode.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using Reason = MoveRefusal::Reason;

constexpr uint64_t copy_address = 0x10000;
constexpr uint64_t far_away = 0x7f00'0000'0000;

std::vector<uint8_t> moved(const char* hex, uint64_t to = copy_address, RelocateOptions options = {}) {
  const auto bytes = code(hex);
  const auto result = relocate({base, bytes}, to, options);
  EXPECT_TRUE(result) << hex << ": " << result.error().text();
  return result ? result->bytes : std::vector<uint8_t>();
}

Reason refusal(const char* hex, uint64_t to = copy_address) {
  const auto bytes = code(hex);
  const auto result = relocate({base, bytes}, to);
  EXPECT_FALSE(result) << hex;
  EXPECT_FALSE(result.has_value() || result.error().text().empty());
  return result ? Reason::too_large : result.error().reason;
}

TEST(Encode, Jumps) {
  EXPECT_EQ(encode_jump(0x1000, 0x2000), (std::array<uint8_t, 5>{0xe9, 0xfb, 0x0f, 0, 0}));
  EXPECT_EQ(encode_jump(0x2000, 0x1000), (std::array<uint8_t, 5>{0xe9, 0xfb, 0xef, 0xff, 0xff}));
  EXPECT_TRUE(encode_jump(0x1000, 0x1005 + 0x7fffffffull));
  EXPECT_FALSE(encode_jump(0x1000, 0x1005 + 0x80000000ull));
  EXPECT_TRUE(encode_jump(0x1'0000'0000, 0x1'0000'0005 - 0x80000000));
  EXPECT_FALSE(encode_jump(0x1'0000'0000, 0x1'0000'0004 - 0x80000000));
  EXPECT_EQ(encode_short_jump(0x1000, 0x1000), (std::array<uint8_t, 2>{0xeb, 0xfe}));
  EXPECT_TRUE(encode_short_jump(0x1000, 0x1000 + 129));
  EXPECT_FALSE(encode_short_jump(0x1000, 0x1000 + 130));
  EXPECT_TRUE(encode_short_jump(0x1000, 0x1002 - 128));
  EXPECT_FALSE(encode_short_jump(0x1000, 0x1002 - 129));
  EXPECT_EQ(
      encode_absolute_jump(0x1122334455667788),
      (std::array<uint8_t, 14>{0xff, 0x25, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}));
}

TEST(Relocate, PositionIndependentCodeIsCopied) { EXPECT_EQ(moved("55 4889e5 c3"), code("55 4889e5 c3")); }

TEST(Relocate, RipRelativeOperandsAreCorrected) {
  // lea 0x10(%rip),%rax at 0x1000 -> 0x1017; at 0x10000 the distance is 0x1017 - 0x10007
  EXPECT_EQ(moved("488d0510000000"), code("488d0510 10ffff"));
  // cmpb $5,0x10(%rip): the immediate counts
  EXPECT_EQ(moved("803d1000000005"), code("803d1010ffff05"));
}

TEST(Relocate, AFarLeaBecomesAMove) {
  EXPECT_EQ(moved("488d0510000000", far_away), code("48b8 1710000000000000"));
  EXPECT_EQ(moved("4c8d2510000000", far_away), code("49bc 1710000000000000"));  // %r12
  EXPECT_EQ(refusal("8d0510000000", far_away), Reason::operand_too_far);
  EXPECT_EQ(refusal("488b0510000000", far_away), Reason::operand_too_far);
}

TEST(Relocate, JumpsOutOfTheRunAreWidenedAndCorrected) {
  EXPECT_EQ(moved("eb10"), code("e90d10ffff"));                // to 0x1012
  EXPECT_EQ(moved("7510"), code("0f850c10ffff"));              // to 0x1012
  EXPECT_EQ(moved("0f8510000000"), code("0f851010ffff"));      // to 0x1016
  EXPECT_EQ(moved("e210"), code("e202 eb05 e90910ffff"));      // loop to 0x1012
  EXPECT_EQ(moved("67e310"), code("67e302 eb05 e90910ffff"));  // jecxz to 0x1013
  EXPECT_EQ(moved("c7f810000000"), code("c7f81010ffff"));      // xbegin to 0x1016
}

TEST(Relocate, JumpsToFarAway) {
  EXPECT_EQ(moved("eb10", far_away), code("ff2500000000 1210000000000000"));
  EXPECT_EQ(moved("7510", far_away), code("740e ff2500000000 1210000000000000"));
  EXPECT_EQ(moved("e210", far_away), code("e202 eb0e ff2500000000 1210000000000000"));
  EXPECT_EQ(refusal("c7f810000000", far_away), Reason::operand_too_far);
}

TEST(Relocate, BranchesInsideTheRunStayInTheCopy) {
  // 1: nop; dec %edi; jne 1b+1 (the dec)
  EXPECT_EQ(moved("90 ffcf 75fc"), code("90 ffcf 0f85f8ffffff"));
  // A branch to the first instruction goes through the patch, unless asked otherwise.
  EXPECT_EQ(moved("ffcf 75fc"), code("ffcf 0f85f80fffff"));
  EXPECT_EQ(moved("ffcf 75fc", copy_address, {.start_stays_in_copy = true}), code("ffcf 0f85f8ffffff"));
  EXPECT_EQ(refusal("90 b8909090 90 ebfb"), Reason::splits);
}

TEST(Relocate, ForwardBranchesFindTheirPlace) {
  // je +2; jmp out; ret  -> both widened, the je points behind the widened jmp
  const auto bytes = code("7402 eb20 c3");
  const auto result = relocate({base, bytes}, copy_address);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->bytes.size(), 12u);
  EXPECT_EQ(result->bytes[2], 5);
  EXPECT_EQ(result->copy_of(0), 0u);
  EXPECT_EQ(result->copy_of(2), 6u);
  EXPECT_EQ(result->copy_of(4), 11u);
  EXPECT_FALSE(result->copy_of(1));
  EXPECT_EQ(result->original_of(8), 2u);
  EXPECT_EQ(result->original_of(11), 4u);
  EXPECT_FALSE(result->original_of(12));
}

TEST(Relocate, CallsPushTheOriginalReturnAddress) {
  // push $0x1005; jmp 0x1105
  EXPECT_EQ(moved("e800010000"), code("6805100000 e9fb10ffff"));
  const auto bytes = code("e800010000");
  const uint64_t high = 0x7f12'9000'0000;
  const auto result = relocate({high, bytes}, high + 0x1000);
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->falls_through);
  EXPECT_EQ(result->bytes, code("6805000090 c7442404127f0000 e9f3f0ffff"));
  EXPECT_EQ(refusal("e800010000 90"), Reason::returns_into_run);
  EXPECT_EQ(refusal("ffd0 90"), Reason::returns_into_run);
}

TEST(Relocate, IndirectCallsPushTheOriginalReturnAddress) {
  EXPECT_EQ(moved("ffd0"), code("6802100000 ffe0"));
  EXPECT_EQ(moved("41ffd4"), code("6803100000 41ffe4"));              // *%r12: not rsp
  EXPECT_EQ(moved("ff5018"), code("6803100000 ff6018"));              // *0x18(%rax)
  EXPECT_EQ(moved("ff542408"), code("6804100000 ffa42410000000"));    // *8(%rsp)
  EXPECT_EQ(moved("ff1424"), code("6803100000 ffa42408000000"));      // *(%rsp)
  EXPECT_EQ(moved("41ff542408"), code("6805100000 41ff642408"));      // *8(%r12)
  EXPECT_EQ(moved("ff1510000000"), code("6806100000 ff250b10ffff"));  // *0x1016(%rip)
  EXPECT_EQ(refusal("ffd4"), Reason::unusual);                        // *%rsp
  EXPECT_EQ(refusal("ff1510000000", far_away), Reason::operand_too_far);
}

TEST(Relocate, CallsThatReturnIntoTheCopy) {
  const RelocateOptions options{.calls = CallStyle::return_to_copy};
  EXPECT_EQ(moved("e800010000 90", copy_address, options), code("e80011ffff 90"));
  EXPECT_EQ(moved("e800010000", far_away, options), code("ff1502000000 eb08 0511000000000000"));
  EXPECT_EQ(moved("ff542408 90", copy_address, options), code("ff542408 90"));
}

TEST(Relocate, WhetherTheCopyFallsThrough) {
  const auto falls = [](const char* hex) {
    const auto bytes = code(hex);
    return relocate({base, bytes}, copy_address)->falls_through;
  };
  EXPECT_TRUE(falls("90"));
  EXPECT_TRUE(falls("7510"));
  EXPECT_FALSE(falls("90 c3"));
  EXPECT_FALSE(falls("eb10"));
  EXPECT_FALSE(falls("ffe0"));
}

TEST(Relocate, RefusesWhatCannotMove) {
  EXPECT_EQ(refusal("06"), Reason::undecodable);
  EXPECT_EQ(refusal("90 e90000"), Reason::undecodable);
  EXPECT_EQ(refusal("48cb"), Reason::unusual);
}

}  // namespace
}  // namespace uscope::x86
