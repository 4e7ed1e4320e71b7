#include <gtest/gtest.h>

#include "unit/image/dwarf/compiled.h"

namespace uscope::image::dwarf::testing {
namespace {

TEST(Producers, each_compiler_once_with_its_options) {
  auto opened = open(compile("int main() { return 0; }\n", ".c", "gcc -g -O2 {src} -o {out}"));
  const auto producers = opened->info.producers();
  ASSERT_EQ(producers.size(), 1u);
  EXPECT_EQ(producers[0].language, Language::C);
  EXPECT_EQ(producers[0].units, 1u);
  EXPECT_TRUE(producers[0].text.starts_with("GNU C")) << producers[0].text;
  EXPECT_NE(producers[0].text.find("-O2"), std::string::npos) << producers[0].text;
}

}  // namespace
}  // namespace uscope::image::dwarf::testing
