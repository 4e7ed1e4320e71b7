#include <fmt/format.h>
#include <gtest/gtest.h>

#include "unit/image/dwarf/compiled.h"

namespace uscope::image::dwarf::testing {
namespace {

constexpr const char* source = R"(
#include <stdio.h>
struct pair { int a; long b; };
struct big { long x[4]; };
__attribute__((noinline)) int work(int n, const char* text, double d, struct pair v, struct big b) {
  printf("%d %s %f %d %ld %ld\n", n, text, d, v.a, v.b, b.x[2]);
  return n + 1;
}
int main(int argc, char** argv) {
  struct pair v = {1, 2};
  struct big b = {{1, 2, 3, 4}};
  return work(argc, argv[0], 1.5, v, b);
}
)";

class Functions : public ::testing::TestWithParam<std::string> {};

TEST_P(Functions, are_found_by_address_with_their_parameters) {
  auto opened = open(compile(source, ".c", GetParam() + " {src} -o {out}"));
  ASSERT_FALSE(opened->info.is_empty());
  Function by_name = function_named(opened->info, "work");
  auto found = opened->info.function_at(by_name.entry + 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->qualified, "work");
  EXPECT_EQ(found->language, Language::C);
  EXPECT_TRUE(found->is_external);
  EXPECT_EQ(found->declared.line, 5u);
  EXPECT_EQ(spell(opened->info, found->return_type), "int");
  std::vector<std::string> parameters;
  for (const Variable& parameter : found->parameters) {
    parameters.push_back(spell(opened->info, parameter.type) + " " + parameter.name);
  }
  EXPECT_EQ(parameters,
            (std::vector<std::string>{"int n", "const char* text", "double d", "pair v", "big b"}));
  EXPECT_FALSE(opened->info.function_at({1}));
}

INSTANTIATE_TEST_SUITE_P(Compilers, Functions,
                         ::testing::Values("gcc -O0 -gdwarf-4", "gcc -O2 -gdwarf-5", "clang-14 -O0 -gdwarf-5",
                                           "clang-14 -O2 -gdwarf-4"));

// Of a struct in registers, compilers describe what is left of it up to the last piece that is.
TEST(Variables, are_whole_or_say_what_is_missing) {
  if (!have("clang-14")) GTEST_SKIP() << "no clang-14";
  const char* parts = R"(
struct three { long a, b, c; };
volatile long sink;
__attribute__((noinline)) void use(long n) { sink = n; }
__attribute__((noinline)) long work(long x, long y, long z) {
  struct three t = {x * 7, y * 5, z * 11};
  use(t.c);
  use(t.a);
  use(t.b);
  use(t.a + t.b);
  return t.a;
}
int main(void) { return (int)work(3, 4, 5); }
)";
  auto opened = open(compile(parts, ".c", "clang-14 -O2 -g {src} -o {out}"));
  Function work = function_named(opened->info, "work");
  int cut = 0;
  for (uint64_t at = work.entry.value; at < work.ranges.at(0).end.value; at++) {
    for (const Variable& variable : opened->info.variables_at({at})) {
      if (variable.name != "t") continue;
      uint64_t bits = 0;
      bool is_whole = false;
      for (const LocPiece& piece : variable.location.pieces) {
        bits += piece.bit_size;
        is_whole |= piece.bit_size == 0;
      }
      EXPECT_TRUE(is_whole || bits == 192) << at - work.entry.value << ": " << spell(variable.location);
      cut += !is_whole && !variable.location.is_available();
    }
  }
  EXPECT_GT(cut, 0);
}

}  // namespace
}  // namespace uscope::image::dwarf::testing
