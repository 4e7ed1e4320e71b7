// The same program with its debug info in different places must read the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "unit/image/dwarf/compiled.h"

namespace uscope::image::dwarf::testing {
namespace {

constexpr const char* source = R"(
#include <stdio.h>
struct pair { int a; long b; };
static inline __attribute__((always_inline)) int small(int x) {
  return x * 3 + 1;
}
__attribute__((noinline)) int work(int n, const char* text, double d, struct pair v) {
  int sum = small(n);
  for (int i = 0; i < n; i++) sum += text[i] + small(i);
  printf("%d %f %ld\n", sum, d, v.b);
  return sum;
}
int main(int argc, char** argv) { struct pair v = {1, 2}; return work(argc, argv[0], 1.5, v); }
)";

std::string summary(const DebugInfo& info) {
  std::string text;
  info.for_each_function([&](const Function& function) {
    text += fmt::format("{} {}:\n", function.name, function.declared.line);
    for (const Variable& parameter : function.parameters) {
      text +=
          fmt::format("  {} {} {}\n", spell(info, parameter.type), parameter.name, spell(parameter.location));
    }
    for (const Variable& variable : info.variables_at(function.entry + 20)) {
      text += fmt::format("  at +20: {} {}\n", spell(info, variable.type), variable.name);
    }
    return true;
  });
  for (const InlinedCopy& copy : info.inlined_copies("small")) {
    text += fmt::format("{} in {} from line {}\n", copy.callee, copy.caller, copy.call_site.line);
  }
  for (TypeId id : info.find_types("pair"))
    text += fmt::format("{} {}\n", info.type(id).qualified, info.type(id).size);
  return text;
}

struct Layout {
  const char* compiler;
  const char* flags;
  const char* after;  // commands on {out}
};
class Layouts : public ::testing::TestWithParam<Layout> {};

TEST_P(Layouts, say_the_same) {
  const Layout& layout = GetParam();
  if (!have(layout.compiler)) GTEST_SKIP() << layout.compiler << ": no such compiler";
  std::string version = std::string(layout.flags).find("dwarf-4") == std::string::npos ? "5" : "4";
  auto plain = open(
      compile(source, ".c", fmt::format("{} -O2 -gdwarf-{} {{src}} -o {{out}}", layout.compiler, version)));
  std::string command = fmt::format("{} -O2 {} -c {{src}} -o {{out}}.o && {} {{out}}.o -o {{out}} {}",
                                    layout.compiler, layout.flags, layout.compiler, layout.after);
  auto other = open(compile(source, ".c", command));
  std::string expected = summary(plain->info);
  EXPECT_NE(expected.find("const char* text rsi"), std::string::npos) << expected;
  EXPECT_NE(expected.find("small in work from line 8"), std::string::npos) << expected;
  EXPECT_EQ(summary(other->info), expected);
  EXPECT_TRUE(other->info.problems().empty()) << other->info.problems().front();
}

INSTANTIATE_TEST_SUITE_P(
    All, Layouts,
    ::testing::Values(
        Layout{"gcc", "-gsplit-dwarf -gdwarf-4", ""}, Layout{"gcc", "-gsplit-dwarf -gdwarf-5", ""},
        Layout{"clang-14", "-gsplit-dwarf -gdwarf-4", ""}, Layout{"clang-14", "-gsplit-dwarf -gdwarf-5", ""},
        Layout{"gcc", "-gsplit-dwarf -gdwarf-4", "&& dwp -e {out} -o {out}.dwp && rm {out}.dwo"},
        Layout{"clang-14", "-gsplit-dwarf -gdwarf-4", "&& dwp -e {out} -o {out}.dwp && rm {out}.dwo"},
        Layout{"clang-14", "-gsplit-dwarf -gdwarf-5",
               "&& llvm-dwp-14 {out}.dwo -o {out}.dwp && rm {out}.dwo"},
        Layout{"gcc", "-gdwarf-5 -gz=zlib", ""}, Layout{"gcc", "-gdwarf-4 -fdebug-types-section", ""},
        Layout{"gcc", "-gdwarf-5 -fdebug-types-section", ""},
        Layout{"gcc", "-gdwarf-5",
               "&& objcopy --only-keep-debug {out} {out}.debug && strip -g {out} && objcopy "
               "--add-gnu-debuglink={out}.debug {out}"},
        Layout{"gcc", "-gdwarf-5", "&& cp {out} {out}.2 && dwz -m {out}.dwz {out} {out}.2"}));

TEST(Layouts, a_missing_split_unit_is_named) {
  auto opened = open(
      compile(source, ".c",
              "gcc -O1 -gsplit-dwarf -gdwarf-5 -c {src} -o {out}.o && gcc {out}.o -o {out} && rm {out}.dwo"));
  EXPECT_FALSE(opened->info.is_empty());
  EXPECT_TRUE(opened->info.find_types("pair").empty());
  ASSERT_EQ(opened->info.problems().size(), 1u);
  EXPECT_NE(opened->info.problems()[0].find(".dwo: the split debug info is missing"), std::string::npos);
}

TEST(Layouts, no_debug_info_is_no_error) {
  auto opened = open(compile(source, ".c", "gcc -O1 {src} -o {out}"));
  EXPECT_TRUE(opened->info.is_empty());
  EXPECT_NE(opened->info.why_empty().find("has no debug info"), std::string::npos);
  EXPECT_FALSE(opened->info.function_at({0x1000}));
  EXPECT_TRUE(opened->info.find_types("*").empty());
  EXPECT_TRUE(opened->info.problems().empty());
}

TEST(Lines, agree_with_addr2line) {
  std::string path = compile(source, ".c", "gcc -O2 -gdwarf-5 {src} -o {out}");
  auto opened = open(path);
  Function work = function_named(opened->info, "work");
  int checked = 0;
  for (uint64_t at = work.entry.value; at < work.ranges[0].end.value; at += 5) {
    std::string theirs = run(fmt::format("addr2line -e {} {:#x}", path, at));
    auto ours = opened->info.line_at({at});
    ASSERT_TRUE(ours) << std::hex << at;
    EXPECT_TRUE(theirs.find(fmt::format(":{}", ours->line)) != std::string::npos)
        << theirs << " against " << ours->line;
    checked++;
  }
  EXPECT_GT(checked, 10);
  auto rows = opened->info.lines_between(work.entry, work.ranges[0].end);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                             [](const LineRow& a, const LineRow& b) { return a.address < b.address; }));
  std::string file = work.declared.file.substr(work.declared.file.rfind('/') + 1);
  EXPECT_FALSE(opened->info.lines_of_file(file, 8).empty());
  EXPECT_TRUE(opened->info.lines_of_file("x" + file).empty());
}

}  // namespace
}  // namespace uscope::image::dwarf::testing
