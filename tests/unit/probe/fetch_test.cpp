#include "probe/fetch.h"

#include <gtest/gtest.h>

#include <map>

namespace uscope::probe {
namespace {

using image::LocOp;
using image::LocPiece;
using image::Member;
using image::Type;
using image::TypeId;
using Kind = Type::Kind;

// A hand-made set of types, as debug info would give them.
class Fetch : public ::testing::Test {
 protected:
  TypeId add(Type type) {
    TypeId id{types_.size() + 1};
    types_[id.value] = std::move(type);
    return id;
  }
  TypeId integer(uint64_t size, bool is_signed) {
    Type type;
    type.kind = Kind::Integer;
    type.size = size;
    type.is_signed = is_signed;
    return add(type);
  }
  TypeId pointer_to(TypeId target) {
    Type type;
    type.kind = Kind::Pointer;
    type.size = 8;
    type.target = target;
    return add(type);
  }
  TypeId structure(std::string name, uint64_t size, std::vector<Member> members, Kind kind = Kind::Struct) {
    Type type;
    type.kind = kind;
    type.name = std::move(name);
    type.size = size;
    type.members = std::move(members);
    return add(type);
  }
  static Member member(std::string name, TypeId type, uint64_t offset) {
    Member m;
    m.name = std::move(name);
    m.type = type;
    m.offset = offset;
    return m;
  }
  TypeId go_string() { return structure("string", 16, {}, Kind::GoString); }

  static image::dwarf::Variable in_registers(std::string name, TypeId type, std::vector<uint32_t> registers) {
    image::dwarf::Variable variable;
    variable.name = std::move(name);
    variable.type = type;
    for (uint32_t number : registers) {
      LocPiece piece;
      piece.kind = LocPiece::Kind::Register;
      piece.ops = {{LocOp::Code::Register, number, 0}};
      piece.bit_size = registers.size() > 1 ? 64 : 0;
      variable.location.pieces.push_back(piece);
    }
    return variable;
  }
  static image::dwarf::Variable computed(std::string name, TypeId type, LocPiece::Kind kind,
                                         std::vector<LocOp> ops) {
    image::dwarf::Variable variable;
    variable.name = std::move(name);
    variable.type = type;
    LocPiece piece;
    piece.kind = kind;
    piece.ops = std::move(ops);
    variable.location.pieces = {piece};
    return variable;
  }

  // "name=fetch:type …" or "error: …".
  std::string fetch(const image::dwarf::Variable& variable, std::string_view path, std::string wanted = "") {
    FetchSite site{{0x401200}, {0x1200}, [this](TypeId id) -> const Type& { return types_[id.value]; }};
    auto parsed = parse_variable_path(path);
    if (!parsed) return "error: " + parsed.error().message();
    auto result = fetch_variable(site, variable, *parsed, "v", wanted);
    if (!result) return "error: " + result.error().message();
    std::string text;
    for (auto& argument : result->arguments) text += (text.empty() ? "" : " ") + argument.text();
    return text;
  }

  std::map<uint64_t, Type> types_;
};

TEST_F(Fetch, NumbersInRegisters) {
  EXPECT_EQ(fetch(in_registers("n", integer(4, true), {4}), "n"), "v=%si:s32");
  EXPECT_EQ(fetch(in_registers("n", integer(8, false), {8}), "n"), "v=%r8:u64");
  EXPECT_EQ(fetch(in_registers("n", integer(4, true), {4}), "n", "x32"), "v=%si:x32");
}

TEST_F(Fetch, TextBehindAPointer) {
  auto text = in_registers("txt", pointer_to(integer(1, true)), {1});
  EXPECT_EQ(fetch(text, "txt"), "v=%dx:x64");
  EXPECT_EQ(fetch(text, "txt", "string"), "v=+0(%dx):string");
  EXPECT_EQ(fetch(text, "*txt"), "v=+0(%dx):s8");
}

TEST_F(Fetch, FieldsThroughPointers) {
  TypeId inner =
      structure("inner", 16, {member("a", integer(8, true), 0), member("b", integer(2, false), 8)});
  TypeId outer = structure("outer", 32, {member("p", pointer_to(inner), 8), member("in", inner, 16)});
  auto variable = in_registers("o", pointer_to(outer), {5});
  EXPECT_EQ(fetch(variable, "o->p->b"), "v=+8(+8(%di)):u16");
  EXPECT_EQ(fetch(variable, "o.in.b"), "v=+24(%di):u16");
  EXPECT_EQ(fetch(variable, "o->nope"), "error: `o` has no field `nope`; it has p, in");
  EXPECT_NE(fetch(variable, "o->in").find("name a field"), std::string::npos);
}

TEST_F(Fetch, GoStringInASliceOfStructs) {
  TypeId question =
      structure("Question", 24, {member("Name", go_string(), 0), member("Qtype", integer(2, false), 16)});
  Type slice;
  slice.kind = Kind::GoSlice;
  slice.size = 24;
  slice.target = question;
  TypeId message = structure("Msg", 64, {member("Question", add(slice), 40)});
  auto variable = in_registers("r", pointer_to(message), {3});
  EXPECT_EQ(fetch(variable, "r.Question[0].Name"), "v=+0(+0(+40(%bx))):string v_len=+8(+40(%bx)):s64");
  EXPECT_EQ(fetch(variable, "r.Question[1].Qtype"), "v=+40(+40(%bx)):u16");
}

TEST_F(Fetch, GoStringInTwoRegisters) {
  EXPECT_EQ(fetch(in_registers("s", go_string(), {0, 3}), "s"), "v=+0(%ax):string v_len=%bx:s64");
}

TEST_F(Fetch, StructSharedInOneRegister) {
  TypeId pair = structure("pair", 8,
                          {member("x", integer(4, true), 0), member("y", integer(4, false), 4),
                           member("z", integer(4, true), 4)});
  auto variable = in_registers("p", pair, {5});
  EXPECT_EQ(fetch(variable, "p.x"), "v=%di:s32");
  EXPECT_EQ(fetch(variable, "p.y"), "v=%di:b32@32/64");
  EXPECT_NE(fetch(variable, "p.z").find("unsigned only"), std::string::npos)
      << "a negative value would show wrong";
}

TEST_F(Fetch, Bitfields) {
  Member flag = member("flag", integer(4, false), 0);
  flag.bit_size = 3;
  flag.bit_offset = 37;
  Member level = flag;
  level.name = "level";
  level.type = integer(4, true);
  TypeId type = structure("bits", 8, {flag, level});
  auto variable = in_registers("b", pointer_to(type), {5});
  EXPECT_EQ(fetch(variable, "b->flag"), "v=+4(%di):b3@5/32");
  EXPECT_NE(fetch(variable, "b->level").find("signed bitfield"), std::string::npos);
}

TEST_F(Fetch, StackSlotsAndStatics) {
  TypeId number = integer(4, true);
  EXPECT_EQ(fetch(computed("n", number, LocPiece::Kind::Memory,
                           {{LocOp::Code::Register, 7, 0}, {LocOp::Code::AddConst, 0, 24}}),
                  "n"),
            "v=+24(%sp):s32");
  EXPECT_EQ(fetch(computed("n", number, LocPiece::Kind::Memory,
                           {{LocOp::Code::Register, 6, 0}, {LocOp::Code::AddConst, 0, -20}}),
                  "n"),
            "v=-20(%bp):s32");
  EXPECT_EQ(fetch(computed("g", number, LocPiece::Kind::Memory, {{LocOp::Code::Address, 0, 0x404010}}), "g"),
            "v=@+16400:s32")
      << "0x404010 less the segment's 0x400000";
  EXPECT_EQ(fetch(computed("c", number, LocPiece::Kind::Value, {{LocOp::Code::Constant, 0, 7}}), "c"),
            "v=\\7:s32");
}

TEST_F(Fetch, WhatTheKernelCannotSayIsSaid) {
  Type real;
  real.kind = Kind::Float;
  real.size = 8;
  EXPECT_NE(fetch(in_registers("d", add(real), {17}), "d").find("vector register xmm0"), std::string::npos);
  auto sum =
      computed("s", integer(8, true), LocPiece::Kind::Value,
               {{LocOp::Code::Register, 5, 0}, {LocOp::Code::Register, 4, 0}, {LocOp::Code::Add, 0, 0}});
  EXPECT_NE(fetch(sum, "s").find("computed"), std::string::npos);
  auto plus_one = computed("s", integer(8, true), LocPiece::Kind::Value,
                           {{LocOp::Code::Register, 5, 0}, {LocOp::Code::AddConst, 0, 1}});
  EXPECT_NE(fetch(plus_one, "s").find("computed"), std::string::npos) << "%di alone would be off by one";
}

TEST_F(Fetch, Arrays) {
  Type array;
  array.kind = Kind::Array;
  array.target = integer(4, true);
  array.dimensions = {4};
  array.size = 16;
  TypeId type = structure("s", 24, {member("xs", add(array), 8)});
  auto variable = in_registers("p", pointer_to(type), {5});
  EXPECT_EQ(fetch(variable, "p->xs"), "v=+8(%di):s32[4]");
  EXPECT_EQ(fetch(variable, "p->xs[2]"), "v=+16(%di):s32");
  EXPECT_NE(fetch(variable, "p->xs[4]").find("past the end"), std::string::npos);
}

}  // namespace
}  // namespace uscope::probe
