#include "session/script_places.h"

#include <gtest/gtest.h>
#include <sys/user.h>

#include <cstddef>

namespace uscope::session {
namespace {

using codegen::ArgumentPlace;
using codegen::PlaceStep;
using image::LocOp;
using image::LocPiece;

image::Location one_piece(LocPiece::Kind kind, std::vector<LocOp> ops) {
  image::Location location;
  LocPiece piece;
  piece.kind = kind;
  piece.ops = std::move(ops);
  location.pieces.push_back(std::move(piece));
  return location;
}

TEST(ScriptPlaces, RegistersLieWhereTheKernelPutsThem) {
  // user_regs_struct begins with the registers in pt_regs' order.
  EXPECT_EQ(context_offset(5), offsetof(user_regs_struct, rdi));
  EXPECT_EQ(context_offset(4), offsetof(user_regs_struct, rsi));
  EXPECT_EQ(context_offset(0), offsetof(user_regs_struct, rax));
  EXPECT_EQ(context_offset(7), offsetof(user_regs_struct, rsp));
  EXPECT_EQ(context_offset(16), offsetof(user_regs_struct, rip));
  EXPECT_EQ(context_offset(15), offsetof(user_regs_struct, r15));
  EXPECT_EQ(context_offset(8), offsetof(user_regs_struct, r8));
  EXPECT_FALSE(context_offset(17)) << "xmm0 is not in pt_regs";
}

TEST(ScriptPlaces, ARegister) {
  auto place = to_place(one_piece(LocPiece::Kind::Register, {{LocOp::Code::Register, 5, 0}}), {0x1000});
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_FALSE(place->is_address);
  EXPECT_EQ(place->register_offset, offsetof(user_regs_struct, rdi));
  EXPECT_TRUE(place->steps.empty());
}

TEST(ScriptPlaces, ASlotOfTheStack) {
  auto place = to_place(
      one_piece(LocPiece::Kind::Memory, {{LocOp::Code::Register, 7, 0}, {LocOp::Code::AddConst, 0, 24}}),
      {0x1000});
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_TRUE(place->is_address);
  ASSERT_EQ(place->steps.size(), 1u);
  EXPECT_EQ(place->steps[0].amount, 24);
}

TEST(ScriptPlaces, AStaticVariableIsCountedFromTheProbe) {
  auto place = to_place(one_piece(LocPiece::Kind::Memory, {{LocOp::Code::Address, 0, 0x4010}}), {0x1000});
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_EQ(place->register_offset, offsetof(user_regs_struct, rip));
  EXPECT_EQ(place->steps[0].amount, 0x3010);
}

TEST(ScriptPlaces, AVectorRegisterWhereTheEngineShowsThem) {
  auto at = [](LocPiece::Kind kind, uint32_t number, uint64_t bits) {
    image::Location location = one_piece(kind, {{LocOp::Code::Register, number, 0}});
    location.pieces[0].bit_size = bits;
    return to_place(location, {0x1000}, 168, bits == 0 ? 8 : bits / 8);
  };
  EXPECT_EQ(at(LocPiece::Kind::Register, 17, 64)->register_offset, 168u);
  EXPECT_EQ(at(LocPiece::Kind::Register, 32, 0)->register_offset, 168u + 15 * 16);
  auto whole = at(LocPiece::Kind::Register, 18, 128);
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->parts.size(), 2u);
  EXPECT_EQ(whole->parts[0].place.register_offset, 168u + 16);
  EXPECT_EQ(whole->parts[1].place.register_offset, 168u + 24);
  EXPECT_FALSE(at(LocPiece::Kind::Register, 17, 256)) << "only its lower half is known";
  EXPECT_FALSE(at(LocPiece::Kind::Register, 0, 128)) << "rax is too small";
  EXPECT_FALSE(at(LocPiece::Kind::Memory, 17, 64)) << "no address is in a vector register";
  EXPECT_FALSE(at(LocPiece::Kind::Register, 33, 64)) << "st0";
}

TEST(ScriptPlaces, WhatCannotBeComputedIsSaid) {
  EXPECT_NE(to_place(one_piece(LocPiece::Kind::Register, {{LocOp::Code::Register, 17, 0}}), {0})
                .error()
                .message()
                .find("vector"),
            std::string::npos);
  EXPECT_FALSE(to_place(one_piece(LocPiece::Kind::OptimizedOut, {}), {0}));
  image::Location two = one_piece(LocPiece::Kind::Register, {{LocOp::Code::Register, 0, 0}});
  two.pieces.push_back(two.pieces.front());
  EXPECT_NE(to_place(two, {0}).error().message().find("several places"), std::string::npos);
}

// The place of the only argument of a usdt note.
Result<ArgumentPlace> usdt_place(std::string_view note) {
  auto arguments = image::parse_usdt_arguments(note);
  if (arguments.size() != 1) return fail("not one argument");
  return to_place(arguments[0], {0x1000});
}

TEST(UsdtPlaces, ARegisterKeepsItsWidthAndSign) {
  auto place = usdt_place("-4@%edi");
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_FALSE(place->is_address);
  EXPECT_EQ(place->register_offset, offsetof(user_regs_struct, rdi));
  EXPECT_EQ(place->size, 4u);
  EXPECT_TRUE(place->is_signed);
}

TEST(UsdtPlaces, MemoryWithAnIndex) {
  auto place = usdt_place("8@-16(%rbp,%rax,4)");
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_TRUE(place->is_address);
  EXPECT_EQ(place->register_offset, offsetof(user_regs_struct, rbp));
  ASSERT_EQ(place->steps.size(), 2u);
  EXPECT_EQ(place->steps[0].amount, -16);
  EXPECT_EQ(place->steps[1].kind, PlaceStep::Kind::AddRegister);
  EXPECT_EQ(place->steps[1].register_offset, offsetof(user_regs_struct, rax));
  EXPECT_EQ(place->steps[1].amount, 4);
}

TEST(UsdtPlaces, AConstant) {
  auto place = usdt_place("-2@$-7");
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_EQ(place->start, ArgumentPlace::Start::Constant);
  EXPECT_EQ(place->constant, -7);
}

TEST(UsdtPlaces, WhatAProbeCannotReadIsSaid) {
  EXPECT_FALSE(usdt_place("8f@%xmm0"));
  EXPECT_FALSE(usdt_place("8@%fs:16"));
  EXPECT_FALSE(usdt_place("8@nowhere(%rip)"));
}

}  // namespace
}  // namespace uscope::session
