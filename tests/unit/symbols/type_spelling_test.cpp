#include "symbols/type_spelling.h"

#include <gtest/gtest.h>

#include "unit/symbols/type_table.h"

namespace uscope::symbols {
namespace {

using image::Language;
using image::TypeId;
using Kind = image::Type::Kind;

struct CTypes : testing::Test {
  TypeTable t{Language::C};
  TypeId integer = t.base("int", 4);
  TypeId character = t.base("char", 1, Kind::Character);
  TypeId size =
      t.add({.kind = Kind::Typedef, .name = "size_t", .size = 8, .target = t.base("unsigned long", 8)});
  TypeId addrinfo = t.named(Kind::Struct, "addrinfo", 48);
  TypeId void_pointer = t.pointer({});
  std::string source(TypeId id) { return spell_type(id, t.resolver()); }
  std::string perf(TypeId id) { return spell_type(id, t.resolver(), TypeStyle::Perf); }
  std::string named(TypeId id, std::string_view name) { return spell_declaration(id, name, t.resolver()); }
};

TEST_F(CTypes, PointersAndQualifiers) {
  EXPECT_EQ(source({}), "void");
  EXPECT_EQ(source(void_pointer), "void *");
  EXPECT_EQ(source(t.pointer(t.constant(character))), "const char *");
  EXPECT_EQ(source(t.constant(t.pointer(character))), "char *const");
  EXPECT_EQ(named(t.constant(t.pointer(t.constant(character))), "s"), "const char *const s");
  EXPECT_EQ(source(t.pointer(t.pointer(addrinfo))), "struct addrinfo **");
  EXPECT_EQ(source(t.derived(Kind::Volatile, t.constant(integer))), "volatile const int");
  EXPECT_EQ(source(t.pointer(size)), "size_t *");
}

TEST_F(CTypes, ArraysAndFunctionPointersReadInsideOut) {
  EXPECT_EQ(source(t.array(character, {16})), "char[16]");
  EXPECT_EQ(named(t.array(integer, {2, 3}), "grid"), "int grid[2][3]");
  EXPECT_EQ(named(t.array(character, {std::nullopt}), "tail"), "char tail[]");
  EXPECT_EQ(named(t.pointer(t.array(integer, {4})), "row"), "int (*row)[4]");
  EXPECT_EQ(named(t.array(t.pointer(character), {4}), "argv"), "char *argv[4]");
  const TypeId compare = t.function(integer, {void_pointer, size});
  EXPECT_EQ(source(t.pointer(compare)), "int (*)(void *, size_t)");
  EXPECT_EQ(named(t.pointer(compare), "cmp"), "int (*cmp)(void *, size_t)");
  EXPECT_EQ(named(t.array(t.pointer(compare), {3}), "table"), "int (*table[3])(void *, size_t)");
  EXPECT_EQ(source(t.pointer(t.function({}, {}))), "void (*)(void)");
  EXPECT_EQ(source(t.pointer(t.function(integer, {t.pointer(t.constant(character))}, true))),
            "int (*)(const char *, ...)");
  // signal(2): a function that returns a pointer to a function.
  const TypeId handler = t.pointer(t.function({}, {integer}));
  EXPECT_EQ(source(t.pointer(t.function(handler, {integer, handler}))),
            "void (*(*)(int, void (*)(int)))(int)");
}

TEST_F(CTypes, PerfAndBpftraceStyles) {
  EXPECT_EQ(perf(t.pointer(t.constant(character))), "char*");
  EXPECT_EQ(perf(t.pointer(t.pointer(addrinfo))), "struct addrinfo**");
  EXPECT_EQ(perf(t.array(character, {16})), "char[16]");
  EXPECT_EQ(perf(t.pointer(t.function(integer, {void_pointer}))), "int(*)(void*)");
  EXPECT_EQ(spell_declaration(t.pointer(character), "name", t.resolver(), TypeStyle::Perf), "char*\tname");
  EXPECT_EQ(spell_declaration(t.pointer(t.constant(character)), "txt", t.resolver(), TypeStyle::Bpftrace),
            "const char* txt");
  EXPECT_EQ(spell_declaration(integer, "n", t.resolver(), TypeStyle::Bpftrace), "int n");
}

TEST_F(CTypes, IntegersAsPeopleWriteThem) {
  EXPECT_EQ(source(t.base("long unsigned int", 8)), "unsigned long");
  EXPECT_EQ(source(t.pointer(t.base("short int", 2))), "short *");
  EXPECT_EQ(perf(t.base("long unsigned int", 8)), "long unsigned int");
  EXPECT_EQ(source(t.base("__int128 unsigned", 16)), "__int128 unsigned");
}

TEST_F(CTypes, AnonymousTypes) {
  EXPECT_EQ(source(t.add({.kind = Kind::Struct})), "struct {...}");
  EXPECT_EQ(source(t.pointer(t.add({.kind = Kind::Union}))), "union {...} *");
}

TEST_F(CTypes, CyclesEnd) {
  const TypeId loop = t.pointer({});
  t.at(loop).target = loop;
  EXPECT_NE(source(loop).find("..."), std::string::npos);
  const TypeId qualified = t.constant({});
  t.at(qualified).target = qualified;
  EXPECT_LT(source(qualified).size(), 1000u);
  // Each level has three parameters of the next: 3^40 names if nobody counted.
  TypeId function = t.function({}, {});
  for (int i = 0; i < 40; ++i) function = t.function({}, {function, function, function});
  EXPECT_LT(source(function).size(), 100000u);
}

struct CppTypes : testing::Test {
  TypeTable t{Language::Cpp};
  TypeId integer = t.base("int", 4);
  TypeId book = t.named(Kind::Class, "AddressBook", 32);
  TypeId string = t.named(
      Kind::Class, "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", 32);
  std::string source(TypeId id) { return spell_type(id, t.resolver()); }
};

TEST_F(CppTypes, NamesWithoutTagsAndWithStdAliases) {
  EXPECT_EQ(source(t.pointer(book)), "AddressBook *");
  EXPECT_EQ(source(t.derived(Kind::Reference, t.constant(string))), "const std::string &");
  EXPECT_EQ(source(t.derived(Kind::RvalueReference, string)), "std::string &&");
  EXPECT_EQ(
      spell_declaration(t.derived(Kind::Reference, string), "firstName", t.resolver(), TypeStyle::Bpftrace),
      "std::string& firstName");
  EXPECT_EQ(spell_type(t.derived(Kind::Reference, string), t.resolver(), TypeStyle::Perf), "std::string&");
}

TEST_F(CppTypes, MemberPointers) {
  const TypeId data = t.add({.kind = Kind::MemberPointer, .size = 8, .target = integer, .key = book});
  EXPECT_EQ(source(data), "int AddressBook::*");
  const TypeId method = t.function(integer, {t.constant(t.pointer(book)), integer});
  const TypeId pointer = t.add({.kind = Kind::MemberPointer, .size = 16, .target = method, .key = book});
  EXPECT_EQ(source(pointer), "int (AddressBook::*)(int)");
  EXPECT_EQ(spell_declaration(pointer, "f", t.resolver()), "int (AddressBook::*f)(int)");
  EXPECT_EQ(source(t.pointer(t.function({}, {}))), "void (*)()");
}

TEST(GoTypes, NamesAsGoPrintsThem) {
  TypeTable t{Language::Go};
  const TypeId integer = t.base("int", 8);
  const TypeId string = t.add({.kind = Kind::GoString, .name = "string", .size = 16});
  const auto source = [&](TypeId id) { return spell_type(id, t.resolver()); };
  EXPECT_EQ(source(t.named(Kind::GoSlice, "[]github.com/miekg/dns.Question", 24)), "[]dns.Question");
  EXPECT_EQ(source(t.pointer(t.named(Kind::Struct, "main.server"))), "*main.server");
  EXPECT_EQ(source(t.add({.kind = Kind::GoMap, .target = integer, .key = string})), "map[string]int");
  EXPECT_EQ(source(t.derived(Kind::GoSlice, string)), "[]string");
  EXPECT_EQ(source(t.derived(Kind::GoChannel, integer)), "chan int");
  EXPECT_EQ(source(t.function(integer, {integer})), "func(int) int");
  EXPECT_EQ(source(t.function({}, {integer, string})), "func(int, string)");
  EXPECT_EQ(source(t.array(integer, {4})), "[4]int");
  EXPECT_EQ(spell_declaration(t.derived(Kind::GoSlice, string), "names", t.resolver()), "names []string");
}

TEST(RustTypes, NamesAsRustWritesThem) {
  TypeTable t{Language::Rust};
  const TypeId byte = t.base("u8", 1);
  const auto source = [&](TypeId id) { return spell_type(id, t.resolver()); };
  EXPECT_EQ(source(t.add({.kind = Kind::Struct, .name = "&str", .qualified = "core::&str"})), "&str");
  EXPECT_EQ(source(t.named(Kind::Struct, "alloc::vec::Vec<u8, alloc::alloc::Global>")), "Vec<u8>");
  EXPECT_EQ(source(t.named(Kind::Struct,
                           "core::option::Option<alloc::boxed::Box<app::Node, alloc::alloc::Global>>")),
            "Option<Box<app::Node>>");
  EXPECT_EQ(source(t.array(byte, {16})), "[u8; 16]");
  EXPECT_EQ(source(t.array(byte, {2, 3})), "[[u8; 3]; 2]");
  EXPECT_EQ(source(t.add({.kind = Kind::Pointer, .name = "*const u8", .target = byte})), "*const u8");
  EXPECT_EQ(source(t.function(byte, {byte})), "fn(u8) -> u8");
  EXPECT_EQ(spell_declaration(byte, "tag", t.resolver()), "tag: u8");
}

}  // namespace
}  // namespace uscope::symbols
