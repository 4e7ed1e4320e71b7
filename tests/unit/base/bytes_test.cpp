#include "base/bytes.h"

#include <gtest/gtest.h>

#include <vector>

namespace uscope {
namespace {

TEST(ByteReader, ReadsLittleEndianInOrder) {
  std::vector<uint8_t> bytes = {1, 2, 0, 3, 0, 0, 0, 'h', 'i', 0};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u16(), 2);
  EXPECT_EQ(reader.u32(), 3u);
  EXPECT_EQ(reader.cstring(), "hi");
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(reader.failed());
}

TEST(ByteReader, FailureIsStickyAndYieldsZero) {
  std::vector<uint8_t> bytes = {1, 2, 3};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u32(), 0u);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(reader.u8(), 0) << "a failed reader must not go on";
}

TEST(ByteReader, Leb128) {
  std::vector<uint8_t> bytes = {0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.uleb128(), 624485u);
  EXPECT_EQ(reader.sleb128(), -1);
  EXPECT_EQ(reader.sleb128(), -128);
}

TEST(ByteReader, AnEndlessLebStopsAtTheEnd) {
  std::vector<uint8_t> bytes(100, 0xff);
  ByteReader reader(bytes);
  reader.uleb128();
  EXPECT_TRUE(reader.failed());
}

TEST(Slice, RefusesOverflow) {
  std::vector<uint8_t> bytes(10);
  EXPECT_FALSE(slice(bytes, 8, ~uint64_t(0)));
  EXPECT_FALSE(slice(bytes, ~uint64_t(0), 2));
  EXPECT_TRUE(slice(bytes, 10, 0));
}

}  // namespace
}  // namespace uscope
