#include "symbols/name_pattern.h"

#include <gtest/gtest.h>

namespace uscope::symbols {
namespace {

bool matches(std::string_view pattern, std::string_view name, Spelling spelling = Spelling::Any) {
  return NamePattern(pattern, spelling).matches(name);
}

constexpr std::string_view run_in_loop = "_ZN5folly9EventBase9runInLoopEPNS0_12LoopCallbackEb";

TEST(NamePattern, EverySpellingOfACppName) {
  EXPECT_TRUE(matches(run_in_loop, run_in_loop));
  EXPECT_TRUE(matches("folly::EventBase::runInLoop", run_in_loop));
  EXPECT_TRUE(matches("folly::EventBase::runInLoop(folly::EventBase::LoopCallback*, bool)", run_in_loop));
  EXPECT_TRUE(matches("folly::EventBase::runInLoop(folly::EventBase::LoopCallback *,bool)", run_in_loop))
      << "blanks that separate no words do not matter";
  EXPECT_TRUE(matches("*folly*EventBase*run*", run_in_loop));
  EXPECT_TRUE(matches("folly::*::run*", run_in_loop));
  EXPECT_FALSE(matches("folly::EventBase::runInLoop(bool)", run_in_loop));
  EXPECT_FALSE(matches("runInLoop", run_in_loop)) << "a name is whole unless it has stars";
}

TEST(NamePattern, BpftracesTwoRules) {
  EXPECT_FALSE(matches("folly::EventBase::runInLoop", run_in_loop, Spelling::Exact));
  EXPECT_TRUE(matches("*EventBase*", run_in_loop, Spelling::Exact));
  EXPECT_TRUE(matches("folly::EventBase::runInLoop", run_in_loop, Spelling::Demangled));
  EXPECT_FALSE(matches(run_in_loop, run_in_loop, Spelling::Demangled));
}

TEST(NamePattern, WordsThatManglingAbbreviates) {
  // std::string is mangled without the word; the quick check must not lose it.
  EXPECT_TRUE(matches("f(std::string)", "_Z1fSs") || matches("f(std::basic_string*", "_Z1fSs"));
  EXPECT_TRUE(matches("f(unsigned int)", "_Z1fj"));
  EXPECT_TRUE(matches("*operator*", "_ZN1VplERKS_"));
}

TEST(NamePattern, GoNamesLookLikeGlobs) {
  EXPECT_TRUE(matches("main.(*server).handleRequest", "main.(*server).handleRequest"));
  EXPECT_TRUE(matches("main.takesPair[go.shape.string,go.shape.int]",
                      "main.takesPair[go.shape.string,go.shape.int]"));
}

TEST(NearestNames, MistypedNames) {
  std::vector<std::string_view> names = {"main", "work", "handle_request", "_ZN2ns6Server6acceptEi"};
  EXPECT_EQ(nearest_names("wrok", names), std::vector<std::string>{"work"});
  EXPECT_EQ(nearest_names("handle_requst", names), std::vector<std::string>{"handle_request"});
  EXPECT_EQ(nearest_names("ns::Server::acept", names), std::vector<std::string>{"ns::Server::accept(int)"});
  EXPECT_TRUE(nearest_names("completely_different", names).empty());
}

}  // namespace
}  // namespace uscope::symbols
