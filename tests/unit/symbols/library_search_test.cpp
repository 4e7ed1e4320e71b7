#include "symbols/library_search.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "symbols/loader_config.h"

namespace uscope::symbols {
namespace {

namespace fs = std::filesystem;

// A folder that stands for another system's root.
struct Root : testing::Test {
  std::string root;
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "uscope-root-XXXXXX").string();
    root = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  void link(const std::string& path, const std::string& target) {
    fs::create_directories(fs::path(root + path).parent_path());
    fs::create_symlink(target, root + path);
  }
};

TEST_F(Root, LinksAreFollowedInsideTheRoot) {
  write("/usr/lib/libx.so.1.2", "x");
  link("/usr/lib/libx.so.1", "libx.so.1.2");
  link("/lib", "usr/lib");
  link("/opt/libx.so", "/lib/libx.so.1");
  link("/a", "/b");
  link("/b", "/a");
  EXPECT_EQ(real_path_below(root, "/lib/libx.so.1"), "/usr/lib/libx.so.1.2");
  EXPECT_EQ(real_path_below(root, "/opt/libx.so"), "/usr/lib/libx.so.1.2");
  EXPECT_EQ(real_path_below(root, "/opt/../../../lib/./libx.so.1"), "/usr/lib/libx.so.1.2");
  EXPECT_EQ(real_path_below(root, "/a/x"), "/a/x");
  EXPECT_EQ(real_path_below(root, "/none/here"), "/none/here");
  EXPECT_EQ(real_path_below("", "no/such/../file"), "no/file");
}

TEST_F(Root, LoaderConfiguration) {
  write("/etc/ld.so.conf", "# comment\n include /etc/ld.so.conf.d/*.conf\n/opt/lib # here\n");
  write("/etc/ld.so.conf.d/b.conf", "/b\n");
  write("/etc/ld.so.conf.d/a.conf", "/a\ninclude ../ld.so.conf\n");
  write("/etc/ld.so.conf.d/ignored.txt", "/c\n");
  const auto folders = configured_folders(root);
  ASSERT_GE(folders.size(), 3u);
  EXPECT_LE(folders.size(), 1000u);  // the files include each other
  EXPECT_EQ(folders.front(), "/a");
  EXPECT_EQ(folders.back(), "/opt/lib");
  EXPECT_EQ(musl_folders(root), (std::vector<std::string>{"/lib", "/usr/local/lib", "/usr/lib"}));
  write("/etc/ld-musl-x86_64.path", "/x:/y\n/z\n");
  EXPECT_EQ(musl_folders(root), (std::vector<std::string>{"/x", "/y", "/z"}));
}

TEST(FindLibraries, OfARealProgram) {
  auto shell = image::ElfFile::open("/bin/sh");
  ASSERT_TRUE(shell) << shell.error().message();
  const auto libraries = find_libraries(*shell);
  const auto libc = std::ranges::find(libraries, "libc.so.6", &Library::name);
  ASSERT_NE(libc, libraries.end());
  EXPECT_TRUE(fs::exists(libc->real_path)) << libc->real_path;
  EXPECT_EQ(libraries.back().found_by, "interpreter");
}

}  // namespace
}  // namespace uscope::symbols
