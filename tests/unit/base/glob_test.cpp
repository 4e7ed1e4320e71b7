#include "base/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace uscope {
namespace {

TEST(Glob, StarsQuestionMarksAndSets) {
  EXPECT_TRUE(glob_match("*folly*run*", "folly::EventBase::runInLoop"));
  EXPECT_TRUE(glob_match("ma?n", "main"));
  EXPECT_FALSE(glob_match("ma?n", "man"));
  EXPECT_TRUE(glob_match("[a-c]x", "bx"));
  EXPECT_FALSE(glob_match("[!a-c]x", "bx"));
  EXPECT_TRUE(glob_match("a[", "a["));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_FALSE(glob_match("", "a"));
}

TEST(Glob, ManyStarsDoNotExplode) {
  std::string pattern, text(5000, 'a');
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(glob_match(pattern + "b", text));
}

}  // namespace
}  // namespace uscope
