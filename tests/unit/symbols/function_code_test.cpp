// Whole functions: with the parts and the ways in that their code alone does not show. The machine's own
// programs are the corpus; how many of their functions have every exit known is printed.
#include "symbols/function_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "unit/image/elf/programs.h"

namespace uscope::symbols {
namespace {

using image::output_of;
using image::Scratch;
using x86::ExitKind;

constexpr std::string_view program = R"(
#include <cstdio>
#include <stdexcept>
#include <string>
__attribute__((noinline)) int thrower(int x) { if (x > 2) throw std::runtime_error("big"); return x; }
extern "C" __attribute__((noinline)) int catches(int x) {
  try { return thrower(x) + 1; } catch (const std::exception& e) { return -int(std::string(e.what()).size()); }
}
extern "C" __attribute__((noinline)) int tail(int x) { return thrower(x + 1); }
int main(int argc, char**) { return catches(argc) + tail(argc); }
)";

ImageSymbols compiled(const Scratch& scratch, const std::string& flags) {
  std::string source = scratch.write("a.cc", program);
  output_of("g++ " + flags + " " + source + " -o " + (scratch / "a.out"));
  auto image = ImageSymbols::open(scratch / "a.out");
  if (!image) std::abort();
  return std::move(*image);
}

const FunctionSymbol* function_named(const ImageSymbols& image, std::string_view name) {
  auto found = std::ranges::find(image.functions(), name, &FunctionSymbol::name);
  return found != image.functions().end() ? &*found : nullptr;
}

TEST(FunctionCode, ACatchBlockInAColdPartIsPartOfTheFunction) {
  for (const char* flags : {"-O0", "-O2", "-O3 -static", "-O2 -fno-reorder-blocks-and-partition"}) {
    Scratch scratch;
    ImageSymbols image = compiled(scratch, flags);
    const FunctionSymbol* catches = function_named(image, "catches");
    ASSERT_NE(catches, nullptr);
    auto code = whole_function_code(image, *catches);
    ASSERT_TRUE(code);
    EXPECT_FALSE(code->landing_pads.empty()) << flags;
    x86::Flow flow = x86::analyze(*code);
    EXPECT_TRUE(flow.complete()) << flags << ": " << flow.gap_text();
    for (const x86::Exit& exit : flow.exits())
      EXPECT_TRUE(exit.kind == ExitKind::ret || exit.kind == ExitKind::no_return) << flags;
    // What is missing without them: the return after the catch.
    EXPECT_GE(flow.instructions().size(), 20u);
  }
}

TEST(FunctionCode, APartIsFoundWithoutItsName) {
  Scratch scratch;
  compiled(scratch, "-O2 -rdynamic");
  output_of("strip " + (scratch / "a.out"));
  auto image = ImageSymbols::open(scratch / "a.out");
  ASSERT_TRUE(image);
  const FunctionSymbol* catches = function_named(*image, "catches");
  ASSERT_NE(catches, nullptr);
  EXPECT_TRUE(image->cold_parts().empty());
  auto code = whole_function_code(*image, *catches);
  ASSERT_TRUE(code);
  EXPECT_EQ(code->parts.size(), 2u);
  x86::Flow flow = x86::analyze(*code);
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
}

TEST(FunctionCode, AnotherFunctionIsNoPart) {
  Scratch scratch;
  ImageSymbols image = compiled(scratch, "-O2");
  const FunctionSymbol *tail = function_named(image, "tail"), *thrower = function_named(image, "_Z7throweri");
  ASSERT_TRUE(tail != nullptr && thrower != nullptr);
  auto code = whole_function_code(image, *tail);
  ASSERT_TRUE(code);
  EXPECT_EQ(code->parts.size(), 1u);
  x86::Flow flow = x86::analyze(*code);
  ASSERT_EQ(flow.exits().size(), 1u);
  EXPECT_EQ(flow.exits()[0].kind, ExitKind::tail_jump);
  EXPECT_EQ(flow.exits()[0].target, thrower->address.value);
}

// How many of an image's functions have all exits known.
double share_of_known_exits(const std::string& path) {
  auto image = ImageSymbols::open(path);
  if (!image) return -1;
  size_t functions = 0, known = 0, jumping = 0;
  std::optional<ImageAddr> last;
  for (const FunctionSymbol& function : image->functions()) {
    if (last == function.address) continue;
    last = function.address;
    auto code = whole_function_code(*image, function);
    if (!code) continue;
    ++functions;
    x86::Flow flow = x86::analyze(*code);
    known += flow.complete();
    jumping += std::ranges::any_of(flow.exits(), [](const x86::Exit& exit) {
      return exit.kind != ExitKind::ret && exit.kind != ExitKind::no_return;
    });
  }
  if (functions == 0) return -1;
  double share = 100.0 * double(known) / double(functions);
  std::printf("%s: %zu functions, all exits known in %.2f %%, %zu leave by a jump\n", path.c_str(), functions,
              share, jumping);
  return share;
}

struct Expected {
  const char* path;
  double at_least;
};

class Coverage : public ::testing::TestWithParam<Expected> {};

TEST_P(Coverage, NearlyAllExitsAreKnown) {
  double share = share_of_known_exits(GetParam().path);
  if (share < 0) GTEST_SKIP() << "no " << GetParam().path;
  EXPECT_GE(share, GetParam().at_least);
}

INSTANTIATE_TEST_SUITE_P(FunctionCode, Coverage,
                         ::testing::Values(Expected{"/lib/x86_64-linux-gnu/libc.so.6", 97},
                                           Expected{"/lib/x86_64-linux-gnu/libstdc++.so.6", 99.9},
                                           Expected{"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", 99.9},
                                           Expected{"/usr/bin/node", 99.5},
                                           Expected{"/usr/lib/go-1.19/pkg/tool/linux_amd64/compile", 99.9}));

TEST(FunctionCode, NearlyAllExitsOfARustProgramAreKnown) {
  const char* home = std::getenv("HOME");
  std::string found = output_of("ls " + std::string(home ? home : "/root") +
                                "/.rustup/toolchains/*/bin/cargo /usr/bin/cargo 2>/dev/null | head -1");
  std::string path = found.substr(0, found.find('\n'));
  double share = path.empty() ? -1 : share_of_known_exits(path);
  if (share < 0) GTEST_SKIP() << "no cargo";
  EXPECT_GE(share, 99.5);
}

}  // namespace
}  // namespace uscope::symbols
