#include "session/goroutine_number.h"

#include <gtest/gtest.h>

namespace uscope::session {
namespace {

TEST(GoroutineNumber, IsWhereEachVersionPutIt) {
  EXPECT_EQ(known_goid_offset("go1.17"), 152u);
  EXPECT_EQ(known_goid_offset("go1.22.12"), 152u);
  EXPECT_EQ(known_goid_offset("go1.23rc1"), 160u);
  EXPECT_EQ(known_goid_offset("go1.24.9"), 160u);
  EXPECT_EQ(known_goid_offset("go1.25.3"), 152u);
  EXPECT_EQ(known_goid_offset("go1.27.3 X:nodwarf5"), 152u);
}

TEST(GoroutineNumber, OfOtherVersionsIsNotGuessed) {
  EXPECT_FALSE(known_goid_offset("go1.16.15"));
  EXPECT_FALSE(known_goid_offset("go1.28"));
  EXPECT_FALSE(known_goid_offset("go2.17"));
  EXPECT_FALSE(known_goid_offset("go1."));
  EXPECT_FALSE(known_goid_offset("devel go1.25-3f1d0a3b52"));
  EXPECT_FALSE(known_goid_offset(""));
}

}  // namespace
}  // namespace uscope::session
