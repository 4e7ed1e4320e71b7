#include "image/pe/native_maps.h"

#include <gtest/gtest.h>

namespace uscope::image {
namespace {

// The image of the guide whose author computed 0x1900 by hand.
NativeImage sample_image() {
  NativeImage image;
  image.kind = NativeImageKind::kOtherNative;
  image.path = "/app-profile/sample-netcore-app.ni.exe";
  image.assembly = "sample-netcore-app";
  image.mvid = {0x77, 0x10, 0x6f, 0xe4, 0xcb, 0x89, 0xdd, 0x4a,
                0x94, 0xfd, 0xa6, 0xae, 0x91, 0xa0, 0x35, 0xfc};
  PeSection data{".data", ImageAddr{0x10000}, 0x1000, FileOffset{0x400}, 0x200, 0xc0000040};
  PeSection text{".text", ImageAddr{0x20600}, 0x2c00, FileOffset{0x600}, 0x2c00, 0x60000020};
  image.sections = {data, text};
  return image;
}

constexpr std::string_view kCrossgen =
    "00000000000217e0 33 void [sample-netcore-app] sample_netcore_app.Program::Main(string[])\n"
    "0000000000021900 9 instance string [sample-netcore-app] "
    "sample_netcore_app.Providers.EchoProvider::calculateEchoValue(string)\n";

TEST(NativeMaps, CrossgenMapsGiveTheOffsetsPeopleComputeByHand) {
  auto map = parse_native_map(kCrossgen);
  ASSERT_TRUE(map);
  EXPECT_FALSE(map->version);
  NativeImage image = sample_image();
  use_native_map(image, *map);
  ASSERT_EQ(image.methods.size(), 2u);
  EXPECT_EQ(image.methods[0].offset.value, 0x17e0u);
  EXPECT_EQ(image.methods[1].offset.value, 0x1900u);
  EXPECT_EQ(image.methods[1].size, 9u);
  EXPECT_EQ(image.methods[1].qualified_name(),
            "sample_netcore_app.Providers.EchoProvider::calculateEchoValue");
  EXPECT_EQ(image.explanation(), "");
}

TEST(NativeMaps, R2rMapsHaveHeaderRecords) {
  auto map = parse_native_map(
      "FFFFFFFF 00 B0FBDF80EA6AA8A4F79673F8E8B0FBB0\r\n"
      "FFFFFFFE 00 1\n"
      "FFFFFFFD 00 2\n"
      "FFFFFFFC 00 3\n"
      "FFFFFFFB 00 1\n"
      "00020700 1F Some.Type::A name with spaces(int)\n"
      "00000010 05 outside any section\n"
      "bad line\n");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->version, 1u);
  EXPECT_EQ(map->system, 2u);
  EXPECT_EQ(map->machine, 3u);
  EXPECT_EQ(map->signature, "b0fbdf80ea6aa8a4f79673f8e8b0fbb0");
  ASSERT_EQ(map->lines.size(), 2u);
  EXPECT_EQ(map->malformed_lines, 1u);
  NativeImage image = sample_image();
  use_native_map(image, *map);
  ASSERT_EQ(image.methods.size(), 1u);
  EXPECT_EQ(image.methods[0].name, "Some.Type::A name with spaces(int)");
  EXPECT_EQ(image.methods[0].offset.value, 0x700u);
  ASSERT_EQ(image.notes.size(), 2u);
  EXPECT_EQ(image.notes[0], "1 lines of the map point outside the image's code and are left out");
}

TEST(NativeMaps, TextThatIsNoMapIsAnError) {
  EXPECT_FALSE(parse_native_map("hello\nworld\n").has_value());
  EXPECT_TRUE(parse_native_map("").has_value());
}

TEST(NativeMaps, FileNames) {
  auto crossgen = parse_native_map_path("/tmp/app.ni.{E46F1077-89cb-4add-94fd-a6ae91a035fc}.map");
  ASSERT_TRUE(crossgen);
  EXPECT_EQ(crossgen->image, "app");
  EXPECT_EQ(crossgen->mvid, "e46f1077-89cb-4add-94fd-a6ae91a035fc");
  auto crossgen2 = parse_native_map_path("System.Console.ni.r2rmap");
  ASSERT_TRUE(crossgen2);
  EXPECT_EQ(crossgen2->image, "System.Console");
  EXPECT_FALSE(crossgen2->mvid);
  EXPECT_FALSE(parse_native_map_path("/tmp/perf-12.map"));
  EXPECT_FALSE(parse_native_map_path("app.ni.dll"));
}

TEST(NativeMaps, AMapOfAnotherBuildIsTold) {
  auto map = parse_native_map(kCrossgen);
  ASSERT_TRUE(map);
  NativeImage image = sample_image();
  EXPECT_EQ(match_native_map(*map, "sample-netcore-app.ni.{e46f1077-89cb-4add-94fd-a6ae91a035fc}.map", image),
            MapMatch::kSame);
  EXPECT_EQ(match_native_map(*map, "sample-netcore-app.ni.{00000000-89cb-4add-94fd-a6ae91a035fc}.map", image),
            MapMatch::kDifferent);
  EXPECT_EQ(match_native_map(*map, "/x/sample-netcore-app.ni.r2rmap", image), MapMatch::kNameOnly);
  EXPECT_EQ(match_native_map(*map, "other.ni.r2rmap", image), MapMatch::kDifferent);
  map->signature = "00112233445566778899aabbccddeeff";
  image.map_signature = map->signature;
  EXPECT_EQ(match_native_map(*map, "other.ni.r2rmap", image), MapMatch::kSame);
  image.map_signature = "ff112233445566778899aabbccddeeff";
  EXPECT_EQ(match_native_map(*map, "sample-netcore-app.ni.r2rmap", image), MapMatch::kDifferent);
}

}  // namespace
}  // namespace uscope::image
