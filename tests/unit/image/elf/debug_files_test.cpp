#include "image/elf/debug_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "image/elf/symbols.h"
#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

namespace fs = std::filesystem;

// A program with debug info in DIR/bin/a, below a root of its own.
class DebugFilesTest : public testing::Test {
 protected:
  DebugFilesTest() {
    fs::create_directories(scratch_ / "bin");
    output_of("gcc -g -O1 -o " + image_ + " " + scratch_.write("a.c", small_program));
    search_.root = scratch_.path();
    search_.image_path = "/bin/a";
  }

  void split(const std::string& debug_path, bool link) {
    fs::create_directories(fs::path(debug_path).parent_path());
    output_of("objcopy --only-keep-debug " + image_ + " " + debug_path);
    output_of("strip " + image_);
    if (link) output_of("objcopy --add-gnu-debuglink=" + debug_path + " " + image_);
  }
  std::string build_id_path() {
    std::string id = to_hex(open_image(image_).build_id());
    return scratch_.path() + "/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
  }
  DebugFiles find() { return find_debug_files(open_image(image_), search_); }
  bool knows_local_function(const DebugFiles& found) {
    return std::ranges::count(read_function_symbols(*found.file).symbols, "local_function", &Symbol::name) ==
           1;
  }

  Scratch scratch_;
  std::string image_ = scratch_ / "bin/a";
  DebugFileSearch search_;
};

TEST_F(DebugFilesTest, InTheFileItself) {
  DebugFiles found = find();
  EXPECT_EQ(found.kind, DebugFileKind::Itself);
  EXPECT_EQ(found.path, image_);
  EXPECT_EQ(describe(found), "in the file itself");
}

TEST_F(DebugFilesTest, ByBuildId) {
  std::string path = build_id_path();
  split(path, false);
  DebugFiles found = find();
  ASSERT_EQ(found.kind, DebugFileKind::BuildId);
  EXPECT_EQ(found.path, path);
  EXPECT_TRUE(found.file->has_debug_info());
  EXPECT_TRUE(knows_local_function(found));
}

TEST_F(DebugFilesTest, ByDebugLinkInEachOfItsPlaces) {
  split(scratch_ / "a.debug", true);
  for (std::string place : {"bin/a.debug", "bin/.debug/a.debug", "usr/lib/debug/bin/a.debug"}) {
    std::string path = scratch_ / place;
    fs::create_directories(fs::path(path).parent_path());
    fs::copy_file(scratch_ / "a.debug", path);
    DebugFiles found = find();
    EXPECT_EQ(found.kind, DebugFileKind::DebugLink) << place;
    EXPECT_EQ(found.path, path);
    fs::remove(path);
  }
}

TEST_F(DebugFilesTest, AFileOfAnotherBuildIsRefusedAndSaidSo) {
  std::string path = build_id_path();
  split(scratch_ / "a.debug", true);
  // Another program's debug file in the place of ours.
  output_of("gcc -g -O2 -DX -o " + (scratch_ / "b") + " " + (scratch_ / "a.c") + " -Wl,--build-id=0x1234");
  fs::copy_file(scratch_ / "b", scratch_ / "bin/a.debug");
  DebugFiles found = find();
  EXPECT_FALSE(found.kind);
  ASSERT_EQ(found.tried.size(), 4u);
  EXPECT_EQ(found.tried[0], path);
  EXPECT_EQ(found.tried[1], (scratch_ / "bin/a.debug") + " (of another build)");
  EXPECT_EQ(describe(found).find("none; tried "), 0u);
}

TEST_F(DebugFilesTest, WithoutBuildIdsTheChecksumDecides) {
  output_of("gcc -g -O1 -Wl,--build-id=none -o " + image_ + " " + (scratch_ / "a.c"));
  split(scratch_ / "bin/a.debug", true);
  EXPECT_EQ(find().kind, DebugFileKind::DebugLink);
  std::ofstream(scratch_ / "bin/a.debug", std::ios::app) << "x";
  DebugFiles found = find();
  EXPECT_FALSE(found.kind);
  EXPECT_EQ(found.tried[0], (scratch_ / "bin/a.debug") + " (its checksum differs)");
}

TEST_F(DebugFilesTest, MiniDebugInfoGivesSymbolsOnly) {
  std::string mini = scratch_ / "mini";
  output_of("objcopy -S --keep-symbol=local_function " + image_ + " " + mini);
  output_of("objcopy --only-keep-debug " + mini + " " + mini + ".d && mv " + mini + ".d " + mini + " && xz " +
            mini);
  output_of("strip " + image_ + " && objcopy --add-section .gnu_debugdata=" + mini + ".xz " + image_);
  DebugFiles found = find();
  ASSERT_EQ(found.kind, DebugFileKind::MiniDebugInfo);
  EXPECT_FALSE(found.file->has_debug_info());
  EXPECT_TRUE(knows_local_function(found));

  ElfFile image = open_image(image_);
  auto limited = image.mini_debug_info(64);
  ASSERT_FALSE(limited);
  EXPECT_NE(limited.error().message().find("more than the 64 bytes allowed"), std::string::npos);
}

TEST_F(DebugFilesTest, DwpBesideTheFile) {
  EXPECT_EQ(find().dwp_path, "");
  std::ofstream(image_ + ".dwp") << "x";
  EXPECT_EQ(find().dwp_path, image_ + ".dwp");
}

TEST(DebugLinkCrc, IsTheOneOfGdb) { EXPECT_EQ(debug_link_crc(as_bytes("123456789")), 0xcbf43926u); }

}  // namespace
}  // namespace uscope::image
