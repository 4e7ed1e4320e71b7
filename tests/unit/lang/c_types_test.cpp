// Layouts as the compiler of this test makes them: the same definitions are given to both.
#include "lang/c_types.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "parsing.h"

namespace uscope::lang {
namespace {

struct Read {
  Parsed parsed;
  CTypes types;

  explicit Read(const std::string& text) : parsed(text + "\nBEGIN { }") {
    if (parsed.program)
      types = CTypes::read(*parsed.program, parsed.sources, NoTypes(), {}, parsed.diagnostics);
  }
  const TypeField& field(std::string_view name, std::string_view field_name) {
    const StructLayout* layout = types.find_struct(name);
    EXPECT_NE(layout, nullptr) << parsed.errors();
    const TypeField* found = layout ? layout->find(field_name) : nullptr;
    EXPECT_NE(found, nullptr) << field_name;
    static const TypeField kNone;
    return found ? *found : kNone;
  }
};

struct mixed {
  char a;
  int b;
  char c;
  long d;
  short e[3];
  void* f;
  int (*g)(int, char);
  double h;
  struct {
    int x;
    char y;
  } i;
  union {
    int j;
    long k;
  };
  char tail;
};
const char* kMixed =
    "struct mixed { char a; int b; char c; long d; short e[3]; void *f; int (*g)(int, char); double h;\n"
    "  struct { int x; char y; } i; union { int j; long k; }; char tail; };";

TEST(CTypes, OffsetsAndSizes) {
  Read read(kMixed);
  EXPECT_EQ(read.types.find_struct("struct mixed")->size, sizeof(mixed));
  EXPECT_EQ(read.field("struct mixed", "b").offset, offsetof(mixed, b));
  EXPECT_EQ(read.field("struct mixed", "d").offset, offsetof(mixed, d));
  EXPECT_EQ(read.field("struct mixed", "e").offset, offsetof(mixed, e));
  EXPECT_EQ(read.field("struct mixed", "f").offset, offsetof(mixed, f));
  EXPECT_EQ(read.field("struct mixed", "g").offset, offsetof(mixed, g));
  EXPECT_EQ(read.field("struct mixed", "h").offset, offsetof(mixed, h));
  EXPECT_EQ(read.field("struct mixed", "i").offset, offsetof(mixed, i));
  EXPECT_EQ(read.field("struct mixed", "j").offset, offsetof(mixed, j));
  EXPECT_EQ(read.field("struct mixed", "k").offset, offsetof(mixed, k));
  EXPECT_EQ(read.field("struct mixed", "tail").offset, offsetof(mixed, tail));
  EXPECT_EQ(read.field("struct mixed", "e").type.spell(), "int16[3]");
}

struct bits {
  uint32_t a : 4;
  uint32_t b : 28;
  uint32_t c : 1;
  uint8_t d : 7;
  uint16_t e : 10;
  uint64_t f : 40;
  int g;
};

TEST(CTypes, Bitfields) {
  Read read(
      "struct bits { uint32_t a : 4; uint32_t b : 28; uint32_t c : 1; uint8_t d : 7; uint16_t e : 10; "
      "uint64_t f : 40; "
      "int g; };");
  EXPECT_EQ(read.types.find_struct("struct bits")->size, sizeof(bits));
  EXPECT_EQ(read.field("struct bits", "g").offset, offsetof(bits, g));
  // Set one field at a time and find it again where the layout says.
  auto check = [&](const char* name, const bits& value, uint64_t want) {
    const TypeField& field = read.field("struct bits", name);
    uint64_t unit = 0;
    memcpy(&unit, reinterpret_cast<const char*>(&value) + field.offset, field.type.size());
    EXPECT_EQ((unit >> field.bit_offset) & ((uint64_t{1} << field.bit_width) - 1), want) << name;
  };
  bits value{};
  value.a = 5;
  value.b = 0x7654321;
  value.c = 1;
  value.d = 0x55;
  value.e = 0x3a5;
  value.f = 0x123456789a;
  check("a", value, 5);
  check("b", value, 0x7654321);
  check("c", value, 1);
  check("d", value, 0x55);
  check("e", value, 0x3a5);
  check("f", value, 0x123456789a);
}

struct __attribute__((packed)) packed {
  char a;
  int b;
  long c;
};

TEST(CTypes, PackedInFrontAndBehind) {
  EXPECT_EQ(Read("struct p { char a; int b; long c; } __attribute__((packed));")
                .types.find_struct("struct p")
                ->size,
            sizeof(packed));
  EXPECT_EQ(Read("struct __attribute__((packed)) p { char a; int b; long c; };")
                .types.find_struct("struct p")
                ->size,
            sizeof(packed));
}

TEST(CTypes, UnionsPointersToThemselvesAndTypedefs) {
  Read read(
      "struct node { struct node *next; unsigned char data[4][2]; };\nunion u { char text[16]; unsigned long "
      "w; };\n"
      "typedef struct { int x; } point, *point_ptr;\nstruct user { point p; point_ptr q; struct node n; };");
  EXPECT_EQ(read.field("struct node", "next").type.spell(), "struct node *");
  EXPECT_EQ(read.field("struct node", "data").type.size(), 8u);
  EXPECT_EQ(read.types.find_struct("union u")->size, 16u);
  EXPECT_EQ(read.types.find_struct("point")->size, 4u);
  EXPECT_EQ(read.field("struct user", "n").offset, 16u);
}

TEST(CTypes, CharArraysAreTextWithRoomForItsEnd) {
  Read read("struct a { char s[5]; signed char t[5]; char w[2][3]; char one; int last };");
  EXPECT_EQ(read.field("struct a", "s").type.spell(), "string[6]");
  EXPECT_EQ(read.field("struct a", "t").type.spell(), "int8[5]");
  EXPECT_EQ(read.field("struct a", "t").offset, 5u);
  EXPECT_EQ(read.field("struct a", "w").type.spell(), "string[4][2]");
  EXPECT_EQ(read.field("struct a", "one").offset, 16u);
  EXPECT_EQ(read.field("struct a", "last").offset, 20u);
}

TEST(CTypes, Enums) {
  Read read("#define BASE 10\nenum color { RED, GREEN = BASE, BLUE, NEG = -1 };\nenum { ANON = 1 << 3 };");
  EXPECT_EQ(read.types.find_constant("RED")->value, 0);
  EXPECT_EQ(read.types.find_constant("BLUE")->value, 11);
  EXPECT_EQ(read.types.find_constant("NEG")->value, -1);
  EXPECT_EQ(read.types.find_constant("ANON")->value, 8);
  EXPECT_EQ(read.types.find_constant("BLUE")->type.spell(), "enum color");
  EXPECT_EQ(read.types.enumerators("enum color")->size(), 4u);
}

TEST(CTypes, ConditionsAndIncludes) {
  Read read(
      "#include <x.h>\n#define A\n#ifdef A\nstruct a { int x; };\n#else\nstruct b { int x; };\n#endif\n#if "
      "0\n"
      "struct c { int x; };\n#endif");
  EXPECT_NE(read.types.find_struct("struct a"), nullptr);
  EXPECT_EQ(read.types.find_struct("struct b"), nullptr);
  EXPECT_EQ(read.types.find_struct("struct c"), nullptr);
  ASSERT_EQ(read.types.includes().size(), 1u);
  EXPECT_EQ(read.types.includes()[0].spelled, "<x.h>");
}

TEST(CTypes, ConstantsAreAsInC) {
  Read read(
      "#define N 4 * 2\n#define TWICE(x) ((x) * 2)\n"
      "enum { A = 64 - 2 * sizeof(long), B = 1 | 2 << 3, C = 2 + 3 * 4, D = 7 - 2 - 1, E = N + 1, F = ~0U,\n"
      "  G = -7 / 2, H = TWICE(5) + 1, I = 1 ? 5 : 6, J = (unsigned char)300, K = 0xffffffff > -1, L = 'u',\n"
      "  M = 10 % 4 == 2 && 3 >= 3, O = 1 << 31, P = -1 >> 1 };\n"
      "struct s { char pad[64 - 2 * sizeof(long)]; int more[N]; };");
  auto value = [&](const char* name) { return read.types.find_constant(name)->value; };
  ASSERT_EQ(read.parsed.errors(), "");
  EXPECT_EQ(value("A"), 48);
  EXPECT_EQ(value("B"), 17);
  EXPECT_EQ(value("C"), 14);
  EXPECT_EQ(value("D"), 4);
  EXPECT_EQ(value("E"), 9);
  EXPECT_EQ(value("F"), UINT32_MAX);
  EXPECT_EQ(value("G"), -3);
  EXPECT_EQ(value("H"), 11);
  EXPECT_EQ(value("I"), 5);
  EXPECT_EQ(value("J"), 44);
  EXPECT_EQ(value("K"), 0);
  EXPECT_EQ(value("L"), 'u');
  EXPECT_EQ(value("M"), 1);
  EXPECT_EQ(value("O"), INT32_MIN);
  EXPECT_EQ(value("P"), -1);
  EXPECT_EQ(read.types.find_struct("struct s")->size, 80u);
}

TEST(CTypes, ConditionsAreAsInC) {
  Read read(
      "#define V 3\n#if V > 5\nstruct a { int x; };\n#elif V == 3\nstruct b { int x; };\n#else\n"
      "struct c { int x; };\n#endif\n#if defined(V) && V < 2\nstruct d { int x; };\n#endif");
  EXPECT_EQ(read.parsed.errors(), "");
  EXPECT_EQ(read.types.find_struct("struct a"), nullptr);
  EXPECT_NE(read.types.find_struct("struct b"), nullptr);
  EXPECT_EQ(read.types.find_struct("struct c"), nullptr);
  EXPECT_EQ(read.types.find_struct("struct d"), nullptr);
}

struct with_tag {
  struct inner {
    int x;
  };
  int y;
};

TEST(CTypes, WhatIsNoMemberTakesNoRoom) {
  Read read(
      "typedef struct { int x; } point;\nstruct outer { struct inner { int x; }; int y; };\n"
      "struct named { point; int y; };\nstruct last { int n; char text[]; };\nstruct plain { char c; int "
      "(x); int "
      "(y)[2]; };\ntypedef int (call)(int);\nstruct calls { call *one; int (*const two)(int); };");
  ASSERT_EQ(read.parsed.errors(), "");
  EXPECT_EQ(read.types.find_struct("struct outer")->size, sizeof(with_tag));
  EXPECT_EQ(read.field("struct outer", "y").offset, offsetof(with_tag, y));
  EXPECT_EQ(read.types.find_struct("struct inner")->size, 4u);
  EXPECT_EQ(read.types.find_struct("struct named")->size, 4u);
  EXPECT_EQ(read.types.find_struct("struct last")->size, 4u);
  EXPECT_EQ(read.field("struct last", "text").type, Type::array(Type::int8(), 0, 1));
  EXPECT_EQ(read.types.find_struct("struct plain")->size, 16u);
  EXPECT_EQ(read.field("struct plain", "x").type, Type::int32());
  EXPECT_EQ(read.types.find_struct("struct calls")->size, 16u);
}

TEST(CTypes, StructsWithoutNamesOfTwoHeadersAreTwo) {
  Parsed parsed("#include <a.h>\n#include <b.h>\nBEGIN { }");
  std::map<std::string, std::string> files = {
      {"a.h", "typedef struct { int x; } ta;\ntypedef enum { A1 } ea;"},
      {"b.h", "typedef struct { long y[4]; } tb;\ntypedef enum { B1, B2 } eb;"}};
  CTypes::Outside outside;
  outside.find_header = [&](const std::string& name, const std::string&) {
    return std::optional(HeaderFile{name, files.at(name)});
  };
  CTypes types = CTypes::read(*parsed.program, parsed.sources, NoTypes(), outside, parsed.diagnostics);
  ASSERT_NE(types.find_struct("ta"), nullptr);
  EXPECT_EQ(types.find_struct("ta")->size, 4u);
  EXPECT_EQ(types.find_struct("tb")->size, 32u);
  EXPECT_NE(types.find_type("ea")->name(), types.find_type("eb")->name());
  EXPECT_EQ(types.enumerators(types.find_type("ea")->name())->size(), 1u);
}

std::string problem(const std::string& text) { return first_error(Read(text).parsed.diagnostics); }

TEST(CTypes, Mistakes) {
  EXPECT_EQ(problem("struct a { int x; foo y; };"), "unknown type name 'foo'");
  EXPECT_EQ(problem("enum a { A, B }; enum b { A };"), "redefinition of enumerator 'A'");
  EXPECT_EQ(problem("struct a { struct b c; };"), "field 'c' has incomplete type 'struct b'");
  EXPECT_EQ(problem("struct a { int x[99999999999]; };"), "array is too large");
  EXPECT_EQ(problem("struct a { int x : 40; };"), "width of bitfield 'x' exceeds its type");
  EXPECT_EQ(problem("struct a { int x[1 / 0]; };"), "this has no value in C");
  EXPECT_EQ(problem("struct a { int x[sizeof(struct b)]; };"), "the size of 'struct b' is not known");
  EXPECT_EQ(problem("struct a { int x(int); };"), "expected ';' in C definition");
  EXPECT_EQ(problem("struct a { int (x)(int); };"), "field 'x' has incomplete type 'void'");
  EXPECT_EQ(problem("#define T foo\nstruct a { T y; };"), "unknown type name 'foo'");
  EXPECT_EQ(problem("#if 1 +\n#endif"), "this is no condition");
  EXPECT_EQ(problem("#if 1"), "#if without #endif");
  EXPECT_EQ(problem("#endif"), "#endif without #if");
  EXPECT_EQ(problem("#error not here"), "error not here");
  EXPECT_EQ(problem("#els"), "#els is not known");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "struct { ";
  EXPECT_EQ(problem("struct a { " + deep + std::string(201, '}')), "C definition nested too deeply");
}

}  // namespace
}  // namespace uscope::lang
