#include "symbols/overloads.h"

#include <gtest/gtest.h>

#include <vector>

namespace uscope::symbols {
namespace {

std::vector<FunctionSymbol> functions(std::initializer_list<const char*> names) {
  std::vector<FunctionSymbol> out;
  for (const char* name : names) out.emplace_back().name = name;
  return out;
}

TEST(DistinctName, OverloadsHaveTheirParameters) {
  auto all = functions({"_Z4samei", "_Z4samePKc", "_Z5otheri", "main"});
  EXPECT_EQ(distinct_name("_Z4samei", all), "same(int)");
  EXPECT_EQ(distinct_name("_Z4samePKc", all), "same(char const*)");
}

TEST(DistinctName, OthersAreShort) {
  auto all = functions({"_Z4samei", "_ZN2ns4sameEi", "_Z5otheri", "main"});
  EXPECT_EQ(distinct_name("_Z4samei", all), "same");
  EXPECT_EQ(distinct_name("_ZN2ns4sameEi", all), "ns::same");
  EXPECT_EQ(distinct_name("_Z5otheri", all), "other");
  EXPECT_EQ(distinct_name("main", all), "main");
}

TEST(DistinctName, InstancesOfATemplateDifferByWhatTheyAreMadeOf) {
  auto all = functions({"_Z1fIiEvT_", "_Z1fIlEvT_"});
  EXPECT_EQ(distinct_name("_Z1fIiEvT_", all), "f<int>");
  EXPECT_EQ(distinct_name("_Z1fIlEvT_", all), "f<long>");
}

TEST(DistinctName, TwoSymbolsOfOneConstructorAreOneName) {
  auto all = functions({"_ZN3FooC1Ei", "_ZN3FooC2Ei"});
  EXPECT_EQ(distinct_name("_ZN3FooC1Ei", all), "Foo::Foo");
  auto overloaded = functions({"_ZN3FooC1Ei", "_ZN3FooC1Ev"});
  EXPECT_EQ(distinct_name("_ZN3FooC1Ei", overloaded), "Foo::Foo(int)");
}

TEST(DistinctName, AnOperatorHasItsParameters) {
  auto all = functions({"_ZN3FooeqEi"});
  EXPECT_EQ(distinct_name("_ZN3FooeqEi", all), "Foo::operator==(int)");
}

}  // namespace
}  // namespace uscope::symbols
