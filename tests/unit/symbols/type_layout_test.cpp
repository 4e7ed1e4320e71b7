#include "symbols/type_layout.h"

#include <gtest/gtest.h>

#include "symbols/type_print.h"
#include "unit/symbols/type_table.h"

namespace uscope::symbols {
namespace {

using image::Language;
using image::Member;
using image::TypeId;
using Kind = image::Type::Kind;

std::string printed(const TypeTable& t, TypeId id, int depth = 0, bool with_offsets = true) {
  return print_type(layout_type(id, t.resolver(), depth), with_offsets);
}

struct CLayout : testing::Test {
  TypeTable t{Language::C};
  TypeId integer = t.base("int", 4);
  TypeId character = t.base("char", 1, Kind::Character);
  TypeId conn = t.named(Kind::Struct, "conn", 24);
};

TEST_F(CLayout, MembersHolesAndPadding) {
  t.at(conn).members = {{.name = "next", .type = t.pointer(conn), .offset = 0},
                        {.name = "state", .type = character, .offset = 8},
                        {.name = "fd", .type = integer, .offset = 12},
                        {.name = "tag", .type = t.array(character, {5}), .offset = 16}};
  t.at(conn).decl_file = "conn.c";
  t.at(conn).decl_line = 12;
  EXPECT_EQ(printed(t, conn),
            "struct conn {  // size 24, align 8, 1 hole (3 bytes), 3 bytes of padding, conn.c:12\n"
            "  /*  0 | 8 */  struct conn *next;\n"
            "  /*  8 | 1 */  char state;\n"
            "  /*  9 | 3 */  // hole of 3 bytes\n"
            "  /* 12 | 4 */  int fd;\n"
            "  /* 16 | 5 */  char tag[5];\n"
            "  /* 21 | 3 */  // padding of 3 bytes\n"
            "};\n");
  EXPECT_EQ(printed(t, conn, 0, false),
            "struct conn {  // size 24, align 8, 1 hole (3 bytes), 3 bytes of padding, conn.c:12\n"
            "  struct conn *next;\n  char state;\n  int fd;\n  char tag[5];\n};\n");
}

TEST_F(CLayout, BitfieldsCountInBits) {
  const TypeId flags = t.named(Kind::Struct, "flags", 8);
  t.at(flags).members = {{.name = "a", .type = integer, .bit_size = 3, .bit_offset = 0},
                         {.name = "b", .type = integer, .bit_size = 7, .bit_offset = 3},
                         {.name = "c", .type = integer, .offset = 4}};
  EXPECT_EQ(printed(t, flags),
            "struct flags {  // size 8, align 4, 1 hole (22 bits)\n"
            "  /* 0:0 |  3b */  int a : 3;\n"
            "  /* 0:3 |  7b */  int b : 7;\n"
            "  /* 1:2 | 22b */  // hole of 22 bits\n"
            "  /*   4 |   4 */  int c;\n"
            "};\n");
}

TEST_F(CLayout, AnonymousMembersAreWrittenOutNamedOnesByDepth) {
  const TypeId real = t.base("float", 4, Kind::Float);
  const TypeId either = t.add({.kind = Kind::Union, .size = 4});
  t.at(either).members = {{.name = "i", .type = integer}, {.name = "f", .type = real}};
  const TypeId pair = t.named(Kind::Struct, "pair", 8);
  t.at(pair).members = {{.name = "x", .type = integer}, {.name = "y", .type = integer, .offset = 4}};
  t.at(conn).members = {{.type = either, .offset = 0},
                        {.name = "points", .type = t.array(pair, {2}), .offset = 4},
                        {.name = "n", .type = integer, .offset = 20}};
  EXPECT_EQ(printed(t, conn, 1),
            "struct conn {  // size 24, align 4\n"
            "  /*  0 |  4 */  union {\n"
            "  /*  0 |  4 */    int i;\n"
            "  /*  0 |  4 */    float f;\n"
            "                 };\n"
            "  /*  4 | 16 */  struct pair {\n"
            "  /*  4 |  4 */    int x;\n"
            "  /*  8 |  4 */    int y;\n"
            "                 } points[2];\n"
            "  /* 20 |  4 */  int n;\n"
            "};\n");
  EXPECT_NE(printed(t, conn).find("struct pair points[2];"), std::string::npos);
}

TEST_F(CLayout, TypedefsSayWhatTheyStandFor) {
  t.at(conn).members = {{.name = "fd", .type = integer}};
  const TypeId alias = t.add({.kind = Kind::Typedef, .name = "conn_t", .target = conn});
  EXPECT_EQ(printed(t, alias),
            "typedef struct conn conn_t;  // size 24, align 4, 20 bytes of padding\n"
            "struct conn {\n"
            "  /* 0 |  4 */  int fd;\n"
            "  /* 4 | 20 */  // padding of 20 bytes\n"
            "};\n");
  const TypeId nameless =
      t.add({.kind = Kind::Struct, .size = 4, .members = {{.name = "fd", .type = integer}}});
  EXPECT_EQ(printed(t, t.add({.kind = Kind::Typedef, .name = "socket_t", .target = nameless})),
            "typedef struct {  // size 4, align 4\n"
            "  /* 0 | 4 */  int fd;\n"
            "} socket_t;\n");
  EXPECT_EQ(printed(t, t.add({.kind = Kind::Typedef, .name = "list", .target = t.pointer(conn)})),
            "typedef struct conn *list;  // size 8, align 8\n");
  EXPECT_EQ(printed(t, t.add({.kind = Kind::Typedef, .name = "fd_t", .target = integer})),
            "typedef int fd_t;  // size 4, align 4\n");
}

TEST_F(CLayout, EnumsAndDeclarations) {
  const TypeId color = t.named(Kind::Enum, "color", 4);
  t.at(color).target = t.base("unsigned int", 4, Kind::Integer, false);
  t.at(color).enumerators = {{"RED", 0}, {"GREEN", 5}, {"ALL", -1}};
  EXPECT_EQ(printed(t, color),
            "enum color {  // size 4, align 4, unsigned int\n"
            "  RED = 0,\n  GREEN = 5,\n  ALL = 4294967295,\n};\n");
  t.at(conn).is_declaration = true;
  t.at(conn).size = 0;
  EXPECT_EQ(printed(t, conn), "struct conn;  // declared only, defined nowhere in this file's debug info\n");
}

TEST_F(CLayout, PackedRecords) {
  const TypeId packed = t.named(Kind::Struct, "packed", 5);
  t.at(packed).members = {{.name = "a", .type = character}, {.name = "b", .type = integer, .offset = 1}};
  EXPECT_EQ(layout_type(packed, t.resolver()).alignment, 1u);
  EXPECT_TRUE(layout_type(packed, t.resolver()).is_packed);
}

TEST_F(CLayout, RecordsInsideThemselvesEnd) {
  t.at(conn).members = {{.name = "self", .type = conn}, {.name = "", .type = conn}};
  const std::string text = printed(t, conn, 30);
  EXPECT_NE(text.find("inside itself"), std::string::npos);
  // Two ever-deeper anonymous members a level: 2^30 lines if nobody counted.
  TypeId inner = t.add({.kind = Kind::Struct, .size = 4, .members = {{.name = "x", .type = integer}}});
  for (int i = 0; i < 30; ++i) {
    inner = t.add({.kind = Kind::Struct, .size = 4, .members = {{.type = inner}, {.type = inner}}});
  }
  EXPECT_NE(printed(t, inner).find("more members than are shown"), std::string::npos);
}

struct CppLayout : testing::Test {
  TypeTable t{Language::Cpp};
  TypeId integer = t.base("int", 4);
  TypeId character = t.base("char", 1, Kind::Character);
  TypeId vptr = t.pointer(t.pointer(t.function(integer, {})));
};

TEST_F(CppLayout, BasesVtablesAndReusedPadding) {
  const TypeId empty = t.named(Kind::Struct, "Empty", 1);
  const TypeId a = t.named(Kind::Struct, "A", 16);
  t.at(a).members = {{.name = "_vptr.A", .type = vptr, .is_artificial = true},
                     {.name = "c", .type = character, .offset = 8}};
  const TypeId b = t.named(Kind::Struct, "ns::B", 16);
  t.at(b).members = {{.name = "A", .type = a, .is_base = true},
                     {.name = "Empty", .type = empty, .is_base = true},
                     {.name = "d", .type = character, .offset = 9},
                     {.name = "e", .type = integer, .offset = 12},
                     {.name = "count", .type = integer, .is_static = true}};
  EXPECT_EQ(printed(t, b),
            "struct ns::B : A, Empty {  // size 16, align 8, 1 hole (2 bytes)\n"
            "  /*  0 | 16 */  // base A\n"
            "  /*  0 |  0 */  // base Empty\n"
            "  /*  9 |  1 */  char d;\n"
            "  /* 10 |  2 */  // hole of 2 bytes\n"
            "  /* 12 |  4 */  int e;\n"
            "                 static int count;\n"
            "};\n");
  EXPECT_EQ(printed(t, a),
            "struct A {  // size 16, align 8, 7 bytes of padding\n"
            "  /* 0 | 8 */  // vtable pointer _vptr.A\n"
            "  /* 8 | 1 */  char c;\n"
            "  /* 9 | 7 */  // padding of 7 bytes\n"
            "};\n");
  EXPECT_NE(printed(t, b, 1).find("  /*  8 |  1 */    char c;\n"), std::string::npos);
  EXPECT_EQ(printed(t, empty), "struct Empty {  // size 1, align 1\n};\n");
}

TEST_F(CppLayout, VirtualBasesHaveNoFixedOffset) {
  const TypeId v = t.named(Kind::Struct, "V", 16);
  t.at(v).members = {{.name = "_vptr.V", .type = vptr, .is_artificial = true},
                     {.name = "v", .type = integer, .offset = 8}};
  const TypeId d = t.named(Kind::Class, "D", 32);
  t.at(d).members = {{.name = "V", .type = v, .is_base = true, .is_virtual_base = true},
                     {.name = "_vptr.D", .type = vptr, .is_artificial = true},
                     {.name = "z", .type = character, .offset = 8}};
  EXPECT_EQ(printed(t, d),
            "class D : virtual V {  // size 32, align 8\n"
            "  /* 0 |  8 */  // vtable pointer _vptr.D\n"
            "  /* 8 |  1 */  char z;\n"
            "  /* ? | 16 */  // virtual base V\n"
            "  /* 9 | 23 */  // virtual bases and padding, placed by each object's vtable\n"
            "};\n");
}

TEST_F(CppLayout, ScopedEnumsAndAliases) {
  const TypeId color = t.named(Kind::Enum, "ns::Color", 1);
  t.at(color).target = t.base("unsigned char", 1, Kind::Character, false);
  t.at(color).is_enum_class = true;
  t.at(color).enumerators = {{"Red", 1}};
  EXPECT_EQ(printed(t, color),
            "enum class ns::Color : unsigned char {  // size 1, align 1\n  Red = 1,\n};\n");
  const TypeId alias =
      t.add({.kind = Kind::Typedef, .name = "Shade", .qualified = "ns::Shade", .target = color});
  EXPECT_EQ(printed(t, alias),
            "using ns::Shade = ns::Color;  // size 1, align 1\n"
            "enum class ns::Color : unsigned char {\n  Red = 1,\n};\n");
}

TEST(GoLayout, StructsWithEmbeddedFields) {
  TypeTable t{Language::Go};
  const TypeId string = t.add({.kind = Kind::GoString, .name = "string", .size = 16});
  const TypeId logger = t.add({.kind = Kind::Pointer, .name = "*log.Logger", .size = 8});
  const TypeId server = t.named(Kind::Struct, "main.server", 32);
  t.at(server).members = {{.name = "name", .type = string},
                          {.name = "Logger", .type = logger, .offset = 16, .is_embedded = true},
                          {.name = "up", .type = t.base("bool", 1, Kind::Bool), .offset = 24}};
  EXPECT_EQ(printed(t, server),
            "type main.server struct {  // size 32, align 8, 7 bytes of padding\n"
            "  /*  0 | 16 */  name string\n"
            "  /* 16 |  8 */  *log.Logger  // embedded\n"
            "  /* 24 |  1 */  up bool\n"
            "  /* 25 |  7 */  // padding of 7 bytes\n"
            "}\n");
}

TEST(RustLayout, EnumsWithDiscriminantsAndNiches) {
  TypeTable t{Language::Rust};
  const TypeId u32 = t.base("u32", 4, Kind::Integer, false);
  const TypeId f64 = t.base("f64", 8, Kind::Float);
  const TypeId circle = t.named(Kind::Struct, "Circle", 16);
  t.at(circle).members = {{.name = "__0", .type = f64, .offset = 8}};
  const TypeId rect = t.named(Kind::Struct, "Rect", 16);
  t.at(rect).members = {{.name = "w", .type = u32, .offset = 4}, {.name = "h", .type = u32, .offset = 8}};
  const TypeId shape = t.named(Kind::Struct, "app::Shape", 16);
  image::VariantPart part;
  part.discriminant = Member{.type = u32};
  part.variants = {{.name = "Circle", .discriminants = {0}, .type = circle},
                   {.name = "Rect", .type = rect},
                   {.name = "Nothing", .ranges = {{2, 4}}, .type = t.named(Kind::Struct, "Nothing", 16)}};
  t.at(shape).variant_parts = {part};
  EXPECT_EQ(printed(t, shape),
            "enum app::Shape {  // size 16, align 8\n"
            "  /* 0 | 4 */  // discriminant: u32\n"
            "               Circle(  // = 0\n"
            "  /* 8 | 8 */    f64,\n"
            "               ),\n"
            "               Rect {  // = any other value\n"
            "  /* 4 | 4 */    w: u32,\n"
            "  /* 8 | 4 */    h: u32,\n"
            "               },\n"
            "               Nothing,  // = 2..=4\n"
            "}\n");
}

TEST(RustLayout, FieldsComeInTheOrderOfMemory) {
  TypeTable t{Language::Rust};
  const TypeId node = t.named(Kind::Struct, "app::Node", 16);
  t.at(node).members = {{.name = "tag", .type = t.base("u8", 1), .offset = 8},
                        {.name = "id", .type = t.base("u64", 8)}};
  EXPECT_EQ(printed(t, node),
            "struct app::Node {  // size 16, align 8, 7 bytes of padding\n"
            "  /* 0 | 8 */  id: u64,\n"
            "  /* 8 | 1 */  tag: u8,\n"
            "  /* 9 | 7 */  // padding of 7 bytes\n"
            "}\n");
}

}  // namespace
}  // namespace uscope::symbols
