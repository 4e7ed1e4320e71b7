// What the in-process engine is told of images, on the machine's own libraries and the Go programs of the
// tests.
#include "session/patch_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/inproc/target/plan.h"

namespace uscope::session {
namespace {

symbols::ImageSymbols open(const std::string& path) {
  auto image = symbols::ImageSymbols::open(path);
  EXPECT_TRUE(image);
  return std::move(*image);
}

TEST(PatchFacts, AStrippedGoProgramsGoroutinesAreFoundByItsCode) {
  int compared = 0;
  for (const char* name :
       {"go_calls", "go_calls-new", "go_dns", "go_dns-new", "go_dns-new-pie", "go_dns-noopt"}) {
    const std::string whole = std::string(USCOPE_TARGETS "/") + name;
    const std::string stripped = ::testing::TempDir() + name + "-stripped";
    const std::string strip = "strip -o " + stripped + " " + whole;
    if (!std::filesystem::exists(whole) || std::system(strip.c_str()) != 0) continue;
    const symbols::ImageSymbols with = open(whole), without = open(stripped);
    PatchFacts known(with), found(without);
    ASSERT_TRUE(known.go_facts()) << whole;
    ASSERT_TRUE(found.go_facts()) << stripped;
    EXPECT_EQ(known.go_facts()->all_goroutines, found.go_facts()->all_goroutines) << stripped;
    EXPECT_EQ(known.go_facts()->preempt2, found.go_facts()->preempt2) << stripped;
    ++compared;
    std::filesystem::remove(stripped);
  }
  if (compared == 0) GTEST_SKIP() << "the programs to trace are not built (make targets)";
}

TEST(PatchFacts, PiecesCoverTheCodeInOrder) {
  const symbols::ImageSymbols image = open("/lib/x86_64-linux-gnu/libc.so.6");
  PatchFacts facts(image);
  uint64_t end = 0, covered = 0, functions = 0;
  for (const auto& piece : facts.pieces()) {
    EXPECT_GE(piece.code.address, end);
    end = piece.code.end();
    covered += piece.code.bytes.size();
    functions += piece.is_function;
  }
  uint64_t text = 0;
  for (const x86::CodeRange& range : facts.text()) text += range.bytes.size();
  EXPECT_GT(functions, 2000u);
  EXPECT_GT(covered, text * 9 / 10);
}

// The same function, alone and among many, which are planned in another way: one answer.
TEST(PatchFacts, OneAnswerForAFunctionAloneAndAmongMany) {
  using engine::inproc::SiteRequest;
  const char* all = std::getenv("USCOPE_PLAN_ALL_OF");  // a file, thousands of whose functions are asked for
  const symbols::ImageSymbols image = open(all != nullptr ? all : "/lib/x86_64-linux-gnu/libc.so.6");
  PatchFacts facts(image);
  std::vector<SiteRequest> sites;
  for (const symbols::FunctionSymbol& function : image.functions())
    if (function.size != 0 && (sites.empty() || sites.back().address != function.address))
      sites.push_back({function.address});
  const engine::inproc::ImagePlan many = plan_image(facts, sites);
  std::vector<std::string> refused(sites.size());
  for (const auto& refusal : many.refused) refused[refusal.site] = refusal.reason;
  const size_t step = all != nullptr ? 1 + sites.size() / 4000 : 29;
  size_t asked = 0;
  for (size_t i = 0; i < sites.size(); ++i) {
    if (i % step != 0 && refused[i].empty()) continue;
    // Room that a neighbour's probe takes is there for one alone.
    if (refused[i].find("another function's probe") != std::string::npos) continue;
    const engine::inproc::ImagePlan alone = plan_image(facts, std::span(sites).subspan(i, 1));
    EXPECT_EQ(alone.refused.empty(), refused[i].empty())
        << std::hex << sites[i].address.value << " alone: '"
        << (alone.refused.empty() ? "" : alone.refused[0].reason) << "', among many: '" << refused[i] << "'";
    ++asked;
  }
  EXPECT_GT(asked, 50u);
}

TEST(PatchFacts, AnEntryIsAFunctionsFirstInstruction) {
  const symbols::ImageSymbols image = open("/lib/x86_64-linux-gnu/libc.so.6");
  PatchFacts facts(image);
  auto malloc = std::ranges::find(image.functions(), "malloc", &symbols::FunctionSymbol::name);
  ASSERT_NE(malloc, image.functions().end());
  auto entry = facts.entry_at(malloc->address);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->body.address, malloc->address.value);
  EXPECT_EQ(entry->body.bytes.size(), malloc->size);
  EXPECT_FALSE(facts.entry_at(malloc->address + 1));
  EXPECT_TRUE(std::ranges::is_sorted(facts.ways_in()));
  EXPECT_TRUE(std::ranges::binary_search(facts.ways_in(), malloc->address.value));
}

}  // namespace
}  // namespace uscope::session
