#include "image/pe/native_format.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "unit/image/pe/pe_builder.h"

namespace uscope::image {
namespace {

using testing::Blob;

TEST(NativeFormat, UnsignedIntegersOfEveryLength) {
  for (uint32_t value :
       {0u, 1u, 127u, 128u, 16383u, 16384u, 2097151u, 2097152u, 268435455u, 268435456u, ~0u}) {
    Blob blob = testing::native_unsigned(value);
    ByteReader reader(blob.bytes);
    EXPECT_EQ(read_native_unsigned(reader), value);
    EXPECT_TRUE(reader.at_end());
    EXPECT_FALSE(reader.failed());
    ByteReader cut(Bytes(blob.bytes).first(blob.size() - 1));
    read_native_unsigned(cut);
    EXPECT_TRUE(cut.failed()) << value;
  }
}

TEST(NativeFormat, SignedIntegersExtendTheirSign) {
  auto read = [](std::initializer_list<int> bytes) {
    Blob blob(bytes);
    ByteReader reader(blob.bytes);
    int32_t value = read_native_signed(reader);
    EXPECT_FALSE(reader.failed());
    return value;
  };
  EXPECT_EQ(read({0xfe}), -1);  // 7 bits
  EXPECT_EQ(read({0x7e}), 63);
  EXPECT_EQ(read({0xfd, 0xff}), -1);        // 14 bits
  EXPECT_EQ(read({0xfb, 0xff, 0xff}), -1);  // 21 bits
  EXPECT_EQ(read({0xf7, 0xff, 0xff, 0xff}), -1);
  EXPECT_EQ(read({0x0f, 0xfe, 0xff, 0xff, 0xff}), -2);
}

TEST(NativeFormat, ALengthMarkOfFiveOnesIsMalformed) {
  Blob blob{0x1f, 0, 0, 0, 0, 0};
  ByteReader reader(blob.bytes);
  read_native_unsigned(reader);
  EXPECT_TRUE(reader.failed());
}

TEST(NativeArray, FindsWhatIsThereAndOnlyThat) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::map<uint32_t, Blob> elements;
    int count = 1 + int(random() % 60);
    for (int i = 0; i < count; ++i) {
      uint32_t index = random() % 200;
      elements[index] = Blob().u32(0xc0de0000 + index);
    }
    Blob blob = testing::native_array(elements);
    NativeArray array(blob.bytes);
    ASSERT_EQ(array.size(), elements.rbegin()->first + 1);
    for (uint32_t index = 0; index < 220; ++index) {
      auto offset = array.find(index);
      ASSERT_EQ(offset.has_value(), elements.contains(index)) << index;
      if (offset) {
        EXPECT_EQ(ByteReader(blob.bytes, *offset).u32(), 0xc0de0000 + index);
      }
    }
  }
}

TEST(NativeArray, AClaimOfAMillionElementsIsCutToTheBytesThereAre) {
  Blob blob = testing::native_unsigned(1'000'000 << 2);
  blob.u32(0);
  NativeArray array(blob.bytes);
  EXPECT_LE(array.size(), 4u * 16);
  for (uint32_t i = 0; i < array.size(); ++i) array.find(i);
}

TEST(NativeHashtable, VisitsEachEntry) {
  std::vector<Blob> entries;
  for (int i = 0; i < 20; ++i) entries.push_back(Blob().u32(uint32_t(i)));
  Blob blob = testing::native_hashtable(entries);
  std::vector<uint32_t> seen;
  EXPECT_TRUE(NativeHashtable(blob.bytes).for_each([&](uint64_t offset) {
    seen.push_back(ByteReader(blob.bytes, offset).u32());
  }));
  ASSERT_EQ(seen.size(), 20u);
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(seen[i], i);
}

TEST(NativeHashtable, OverlappingBucketsCannotMultiplyEntries) {
  // 2^10 buckets with one-byte indexes, all of which span the same entries.
  Blob blob;
  blob.u8(10 << 2);
  for (int i = 0; i < 1024; ++i) blob.u8(i % 2 == 0 ? 0 : 255);
  blob.u8(0);
  size_t visits = 0;
  EXPECT_FALSE(NativeHashtable(blob.bytes).for_each([&](uint64_t) { ++visits; }));
  EXPECT_LE(visits, blob.size() / 2);
}

TEST(NativeHashtable, AnImpossibleHeaderIsInvalid) {
  Blob blob{0xff, 0, 0};
  EXPECT_FALSE(NativeHashtable(blob.bytes).valid());
  EXPECT_FALSE(NativeHashtable(Bytes()).valid());
}

}  // namespace
}  // namespace uscope::image
