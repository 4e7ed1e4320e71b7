#include "image/pe/bundle.h"

#include <gtest/gtest.h>

#include "image/pe/native_image.h"
#include "unit/image/pe/pe_builder.h"

namespace uscope::image {
namespace {

using testing::Blob;
using testing::MetadataBuilder;
using testing::ReadyToRunSpec;

// The mark that hosts carry, as their documentation gives it.
Blob signature() {
  return Blob{0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32,
              0x13, 0xf5, 0xb9, 0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae};
}

struct File {
  std::string path;
  int type;
  Blob content;
  uint64_t compressed_size = 0;
};

Blob build_bundle(const std::vector<File>& files, uint32_t major = 6, uint32_t claimed_count = ~0u) {
  Blob bundle;
  bundle
      .text(
          "\x7f"
          "ELF")
      .pad_to(0x100);
  size_t header_at = bundle.size();
  bundle.u64(0).add(signature()).pad_to(0x1000);
  std::vector<uint64_t> offsets;
  for (const File& file : files) {
    offsets.push_back(bundle.size());
    bundle.add(file.content).align(0x1000);
  }
  uint64_t manifest = bundle.size();
  bundle.u32(major).u32(0).u32(claimed_count != ~0u ? claimed_count : files.size()).u8(3).text("abc");
  if (major >= 2) bundle.pad_to(bundle.size() + 40);
  for (size_t i = 0; i < files.size(); ++i) {
    bundle.u64(offsets[i]).u64(files[i].content.size());
    if (major >= 6) bundle.u64(files[i].compressed_size);
    bundle.u8(uint64_t(files[i].type)).u8(files[i].path.size()).text(files[i].path);
  }
  bundle.put_u32(header_at, uint32_t(manifest));
  return bundle;
}

Blob app_image() {
  MetadataBuilder builder("app");
  builder.type_def("Demo", "Program");
  builder.method("Main", Blob{0x00, 0, 0x01});
  ReadyToRunSpec spec;
  spec.metadata = builder.build();
  spec.functions = {{ReadyToRunSpec::kCodeAddress, ReadyToRunSpec::kCodeAddress + 8}};
  spec.method_entries = {{0, testing::native_unsigned(0)}};
  return testing::build_ready_to_run(spec);
}

TEST(Bundle, ListsItsFilesInEveryVersion) {
  for (uint32_t major : {1u, 2u, 6u}) {
    Blob file = build_bundle({{"app.dll", 1, app_image()}, {"app.deps.json", 3, Blob{1, 2, 3}}}, major);
    auto bundle = read_bundle(file.bytes);
    ASSERT_TRUE(bundle) << bundle.error().message();
    ASSERT_TRUE(*bundle);
    EXPECT_EQ((*bundle)->major_version, major);
    EXPECT_EQ((*bundle)->id, "abc");
    ASSERT_EQ((*bundle)->entries.size(), 2u);
    EXPECT_EQ((*bundle)->entries[0].path, "app.dll");
    EXPECT_EQ((*bundle)->entries[0].offset.value, 0x1000u);
    EXPECT_EQ((*bundle)->entries[1].type, BundleFileType::kDepsJson);
  }
}

TEST(Bundle, MethodsHaveTheirOffsetInTheBundle) {
  Blob image = app_image();
  Blob file = build_bundle({{"padding.bin", 0, Blob().pad_to(0x2345)}, {"app.dll", 1, image}});
  auto images = read_native_images(file.bytes, "/srv/app");
  ASSERT_TRUE(images);
  ASSERT_EQ(images->size(), 1u);
  const NativeImage& app = (*images)[0];
  EXPECT_EQ(app.bundle_entry, "app.dll");
  EXPECT_EQ(app.path, "/srv/app");
  ASSERT_EQ(app.methods.size(), 1u);
  auto alone = read_native_image(image.bytes, "app.dll");
  ASSERT_TRUE(alone);
  EXPECT_EQ(app.start.value, 0x4000u);
  EXPECT_EQ(app.methods[0].offset.value, alone->methods[0].offset.value + 0x4000);
}

TEST(Bundle, CompressedAssembliesAreSaidToBe) {
  Blob file = build_bundle({{"app.dll", 1, app_image(), 77}});
  auto images = read_native_images(file.bytes, "/srv/app");
  ASSERT_TRUE(images);
  ASSERT_EQ(images->size(), 1u);
  EXPECT_EQ((*images)[0].kind, NativeImageKind::kCompressed);
  EXPECT_EQ((*images)[0].explanation().substr(0, 24), "compressed in its bundle");
}

TEST(Bundle, AHostWithoutABundleIsNone) {
  Blob host;
  host.pad_to(0x40).u64(0).add(signature());
  auto bundle = read_bundle(host.bytes);
  ASSERT_TRUE(bundle);
  EXPECT_FALSE(*bundle);
  EXPECT_FALSE(*read_bundle({}));
}

TEST(Bundle, ManifestsThatLieAreErrors) {
  EXPECT_FALSE(read_bundle(build_bundle({{"a", 1, {}}}, 6, 3).bytes).has_value());
  EXPECT_FALSE(read_bundle(build_bundle({{"a", 1, {}}}, 6, 0x7fffffff).bytes).has_value());
  EXPECT_FALSE(read_bundle(build_bundle({{"a", 1, {}}}, 9).bytes).has_value());
  Blob outside;
  outside.u64(0x999999).add(signature());
  EXPECT_FALSE(read_bundle(outside.bytes).has_value());
}

}  // namespace
}  // namespace uscope::image
