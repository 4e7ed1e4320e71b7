#include "image/pe/metadata.h"

#include <gtest/gtest.h>

#include "unit/image/pe/pe_builder.h"

namespace uscope::image {
namespace {

using testing::Blob;
using testing::MetadataBuilder;

TEST(Metadata, TablesAndJoins) {
  MetadataBuilder builder("app");
  builder.assembly_ref("System.Runtime");
  uint16_t first = builder.type_def("Demo", "First");
  builder.method("a", Blob{0x00, 0, 0x01});
  builder.method("b", Blob{0x20, 0, 0x0e});
  uint16_t empty = builder.type_def("Demo", "Empty");
  uint16_t inner = builder.type_def("", "Inner", first);
  builder.method("c", Blob{0x00, 0, 0x08});
  Blob bytes = builder.build();
  auto metadata = Metadata::parse(bytes.bytes);
  ASSERT_TRUE(metadata);
  EXPECT_FALSE(metadata->truncated());
  EXPECT_EQ(metadata->assembly_name(), "app");
  EXPECT_EQ(metadata->module_name(), "app.dll");
  EXPECT_EQ(metadata->assembly_ref_name(1), "System.Runtime");
  EXPECT_EQ(metadata->assembly_ref_name(2), "");
  EXPECT_EQ(metadata->method_def(2).name, "b");
  ASSERT_EQ(metadata->method_def(2).signature.size(), 3u);
  EXPECT_EQ(metadata->method_def(2).signature[2], 0x0e);
  EXPECT_EQ(metadata->owner_of_method(1), first);
  EXPECT_EQ(metadata->owner_of_method(2), first);
  EXPECT_EQ(metadata->owner_of_method(3), inner);
  EXPECT_EQ(metadata->owner_of_method(4), 0u);
  EXPECT_EQ(metadata->enclosing_type(inner), first);
  EXPECT_EQ(metadata->enclosing_type(empty), 0u);
  EXPECT_EQ(metadata->type_def(999).name, "");
}

TEST(Metadata, ATableThatClaimsMoreRowsThanThereAreBytesIsCut) {
  MetadataBuilder builder("app");
  builder.type_def("Demo", "T");
  builder.method("m", Blob{0x00, 0, 0x01});
  for (int table : {0x00, 0x02, 0x06, 0x20}) {
    // 60,000 rows keep 2-byte indexes, so the tables before it still read right.
    Blob bytes = builder.build({{table, 60'000}});
    auto metadata = Metadata::parse(bytes.bytes);
    ASSERT_TRUE(metadata);
    EXPECT_TRUE(metadata->truncated()) << table;
    EXPECT_LT(metadata->row_count(MetadataTable(table)), 100u);
    bytes = builder.build({{table, 0xffffffff}});
    metadata = Metadata::parse(bytes.bytes);
    ASSERT_TRUE(metadata);
    EXPECT_TRUE(metadata->truncated()) << table;
  }
}

TEST(Metadata, CompressedIntegers) {
  auto read = [](std::initializer_list<int> values) {
    Blob blob(values);
    ByteReader reader(blob.bytes);
    uint32_t value = read_compressed(reader);
    return reader.failed() ? ~0u : value;
  };
  EXPECT_EQ(read({0x03}), 3u);
  EXPECT_EQ(read({0x7f}), 0x7fu);
  EXPECT_EQ(read({0x80, 0x80}), 0x80u);
  EXPECT_EQ(read({0xbf, 0xff}), 0x3fffu);
  EXPECT_EQ(read({0xc0, 0x00, 0x40, 0x00}), 0x4000u);
  EXPECT_EQ(read({0xdf, 0xff, 0xff, 0xff}), 0x1fffffffu);
  EXPECT_EQ(read({0xe0, 0, 0, 0}), ~0u);
  EXPECT_EQ(read({0x80}), ~0u);
  auto read_signed = [](std::initializer_list<int> values) {
    Blob blob(values);
    ByteReader reader(blob.bytes);
    return read_compressed_signed(reader);
  };
  EXPECT_EQ(read_signed({0x06}), 3);  // the examples of ECMA-335 II.23.2
  EXPECT_EQ(read_signed({0x7b}), -3);
  EXPECT_EQ(read_signed({0x80, 0x80}), 64);
  EXPECT_EQ(read_signed({0x01}), -64);
  EXPECT_EQ(read_signed({0x80, 0x01}), -8192);
  EXPECT_EQ(read_signed({0xc0, 0x00, 0x00, 0x01}), -268435456);
}

TEST(Metadata, EveryPrefixIsAnswered) {
  MetadataBuilder builder("app");
  uint16_t outer = builder.type_def("Demo", "T");
  builder.method("m", Blob{0x00, 0, 0x01});
  builder.type_def("", "U", outer);
  Blob bytes = builder.build();
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto metadata = Metadata::parse(Bytes(bytes.bytes).first(size));
    if (!metadata) continue;
    metadata->method_def(1);
    metadata->owner_of_method(1);
    metadata->enclosing_type(3);
    metadata->mvid();
  }
}

}  // namespace
}  // namespace uscope::image
