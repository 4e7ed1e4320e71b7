#include "process/maps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "child.h"

namespace uscope::process {
namespace {

Maps parsed(std::string_view text) {
  auto maps = Maps::parse(text);
  EXPECT_TRUE(maps.has_value()) << maps.error().message();
  return maps.value_or(Maps());
}

TEST(Maps, ReadsEveryFieldOfALine) {
  Maps maps =
      parsed("7f0a10000000-7f0a10002000 r-xp 0001c000 fe:1a 331651                     /usr/lib/libc.so.6\n");
  ASSERT_EQ(maps.all().size(), 1u);
  const Mapping& mapping = maps.all()[0];
  EXPECT_EQ(mapping.start.value, 0x7f0a10000000u);
  EXPECT_EQ(mapping.size(), 0x2000u);
  EXPECT_EQ(mapping.perms, (Permissions{.read = true, .execute = true}));
  EXPECT_EQ(mapping.offset.value, 0x1c000u);
  EXPECT_EQ(mapping.device, makedev(0xfe, 0x1a));
  EXPECT_EQ(mapping.inode, 331651u);
  EXPECT_EQ(mapping.kind, MappingKind::File);
  EXPECT_EQ(mapping.path, "/usr/lib/libc.so.6");
  EXPECT_EQ(mapping.file_offset({0x7f0a10000010}).value, 0x1c010u);
}

TEST(Maps, TellsKindsAndDecodesNames) {
  struct {
    const char* shown;
    MappingKind kind;
    const char* path;
    bool deleted;
  } cases[] = {
      {"/a b/c\\012d", MappingKind::File, "/a b/c\nd", false},
      {"/tmp/x (deleted)", MappingKind::File, "/tmp/x", true},
      {"/memfd:doublemapper (deleted)", MappingKind::Memfd, "/memfd:doublemapper", true},
      {"[anon:go heap]", MappingKind::Anonymous, "[anon:go heap]", false},
      {"[anon_shmem:x]", MappingKind::Anonymous, "[anon_shmem:x]", false},
      {"[vdso]", MappingKind::Special, "[vdso]", false},
      {"anon_inode:[perf_event]", MappingKind::Special, "anon_inode:[perf_event]", false},
      {"/dev/zero (deleted)", MappingKind::Anonymous, "/dev/zero", true},
      {"/SYSV00000000 (deleted)", MappingKind::Anonymous, "/SYSV00000000", true},
      {"", MappingKind::Anonymous, "", false},
  };
  for (auto& c : cases) {
    Maps maps = parsed(fmt::format("1000-2000 rw-s 00000000 00:01 7 {}\n", c.shown));
    ASSERT_EQ(maps.all().size(), 1u) << c.shown;
    EXPECT_EQ(maps.all()[0].kind, c.kind) << c.shown;
    EXPECT_EQ(maps.all()[0].path, c.path) << c.shown;
    EXPECT_EQ(maps.all()[0].deleted, c.deleted) << c.shown;
    EXPECT_EQ(maps.all()[0].path_as_shown, c.shown);
  }
}

TEST(Maps, MalformedLinesAreErrorsThatNameTheLine) {
  EXPECT_EQ(parsed("").all().size(), 0u);
  for (const char* bad : {"\n", "1000-2000", "x-y r-xp 0 0:0 0", "2000-1000 r-xp 00000000 00:00 0",
                          "1000-2000 r-x", "1000-2000 r-xp 00000000 00:00", "1000-2000 r-xp 00000000 00:00 ",
                          "11111111111111111-2000 r-xp 00000000 00:00 0"}) {
    auto maps = Maps::parse(fmt::format("1000-2000 r-xp 00000000 00:00 0\n{}", bad));
    ASSERT_FALSE(maps.has_value()) << bad;
    EXPECT_EQ(maps.error().message(), "line 2 of the memory map is malformed");
  }
}

TEST(Maps, FindsTheMappingAroundAnAddress) {
  Maps maps = parsed("1000-2000 r-xp 00000000 00:00 0\n3000-5000 rw-p 00000000 00:00 0 [heap]\n");
  EXPECT_EQ(maps.find({0xfff}), nullptr);
  EXPECT_EQ(maps.find({0x1000}), &maps.all()[0]);
  EXPECT_EQ(maps.find({0x1fff}), &maps.all()[0]);
  EXPECT_EQ(maps.find({0x2000}), nullptr);
  EXPECT_EQ(maps.find({0x4fff}), &maps.all()[1]);
  EXPECT_EQ(maps.find({0x5000}), nullptr);
  EXPECT_EQ(maps.find_path("[heap]"), &maps.all()[1]);
  EXPECT_EQ(maps.find_path("[stack]"), nullptr);
}

TEST(Maps, GroupsTheLoadingsOfAFile) {
  Maps maps = parsed(
      "1000-2000 r--p 00000000 fe:00 5 /lib/a\n"
      "2000-3000 r-xp 00001000 fe:00 5 /lib/a\n"
      "3000-4000 r--p 00002000 fe:00 5 /lib/a\n"
      "4000-5000 rw-p 00002000 fe:00 5 /lib/a\n"  // shares a page of the file with the part before
      "5000-6000 rw-p 00000000 00:00 0\n"         // its .bss
      "6000-7000 r--p 00000000 fe:00 5 /lib/a\n"  // loaded again by dlmopen
      "7000-8000 r-xp 00001000 fe:00 5 /lib/a\n"
      "8000-9000 r--p 00000000 fe:00 6 /usr/share/fonts\n"
      "9000-a000 r-xp 00000000 fe:00 7 /lib/a\n"  // another file that had the name before
      "a000-b000 r-xp 00000000 00:01 9 /memfd:jit (deleted)\n");
  auto images = maps.images();
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images[0].mappings.size(), 4u);
  EXPECT_EQ(images[0].start().value, 0x1000u);
  EXPECT_EQ(images[0].end().value, 0x5000u);
  EXPECT_EQ(images[1].start().value, 0x6000u);
  EXPECT_EQ(images[1].mappings.size(), 2u);
  EXPECT_EQ(images[2].inode, 7u);
  EXPECT_EQ(maps.files().size(), 4u);
}

// The dynamic linker protects the beginning of the data, which shares its page of the file with the
// constants.
TEST(Maps, WhatIsProtectedAfterRelocationBelongsToItsLoading) {
  auto maps = Maps::parse(
      "1000-2000 r--p 00000000 fe:00 7 /bin/p\n2000-3000 r-xp 00001000 fe:00 7 /bin/p\n"
      "3000-4000 r--p 00002000 fe:00 7 /bin/p\n4000-5000 r--p 00002000 fe:00 7 /bin/p\n"
      "5000-6000 rw-p 00003000 fe:00 7 /bin/p\n"
      "6000-7000 r--p 00000000 fe:00 7 /bin/p\n7000-8000 r--p 00000000 fe:00 7 /bin/p\n");
  ASSERT_TRUE(maps.has_value());
  auto files = maps->files();
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].mappings.size(), 5u);
  EXPECT_EQ(maps->images().at(0).end().value, 0x6000u);
}

TEST(Maps, AFileMappedAsDataBeforeItsLoadingStaysApart) {
  Maps maps = parsed(
      "1000-9000 r--p 00000000 fe:00 5 /lib/a\n"
      "9000-a000 r--p 00000000 fe:00 5 /lib/a\n"
      "a000-b000 r-xp 00001000 fe:00 5 /lib/a\n");
  ASSERT_EQ(maps.images().size(), 1u);
  EXPECT_EQ(maps.images()[0].start().value, 0x9000u);
}

TEST(Maps, OfThisProcessKnowsOurCodeAndStack) {
  auto maps = Maps::of(::getpid());
  ASSERT_TRUE(maps.has_value()) << maps.error().message();
  const Mapping* code = maps->find({reinterpret_cast<uint64_t>(&sleep_forever)});
  ASSERT_NE(code, nullptr);
  EXPECT_TRUE(code->perms.execute);
  EXPECT_EQ(code->path, std::filesystem::read_symlink("/proc/self/exe").string());
  struct stat st;
  ASSERT_EQ(::stat("/proc/self/exe", &st), 0);
  EXPECT_EQ(code->inode, st.st_ino);
  EXPECT_EQ(code->device, st.st_dev);
  int local = 0;
  const Mapping* stack = maps->find({reinterpret_cast<uint64_t>(&local)});
  ASSERT_NE(stack, nullptr);
  EXPECT_TRUE(stack->perms.write);
}

TEST(Maps, AProcessThatIsNotThereIsAnError) { EXPECT_FALSE(Maps::of(0x3fffffff).has_value()); }

class PathToMappedFile : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / fmt::format("uscope-maps-{}", ::getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write_file(const std::string& name, std::string_view content) {
    std::string path = directory_ / name;
    std::ofstream(path) << content;
    return path;
  }
  // Maps the file into ourselves and gives back what the kernel says of that mapping.
  Mapping map(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* at = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    EXPECT_NE(at, MAP_FAILED);
    address_ = {reinterpret_cast<uint64_t>(at)};
    return current();
  }
  Mapping current() { return *Maps::of(::getpid())->find(address_); }
  std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path directory_;
  ProcessAddr address_;
};

TEST_F(PathToMappedFile, GoesThroughTheRootOfTheProcess) {
  Mapping mapping = map(write_file("plain", "one"));
  auto path = path_to_mapped_file(::getpid(), mapping);
  ASSERT_TRUE(path.has_value()) << path.error().message();
  EXPECT_EQ(*path, fmt::format("/proc/{}/root{}/plain", ::getpid(), directory_.string()));
}

TEST_F(PathToMappedFile, OddNamesAreFound) {
  for (std::string name : {"with blank", "new\nline", "back\\012slash", "really (deleted)"}) {
    Mapping mapping = map(write_file(name, name));
    auto path = path_to_mapped_file(::getpid(), mapping);
    ASSERT_TRUE(path.has_value()) << name << ": " << path.error().message();
    EXPECT_EQ(content_of(*path), name);
    EXPECT_NE(path->find("/root/"), std::string::npos) << *path;
  }
}

TEST_F(PathToMappedFile, AReplacedFileLeadsToTheOldOne) {
  std::string path = write_file("lib", "old");
  map(path);
  std::filesystem::rename(write_file("lib.new", "new"), path);
  auto found = path_to_mapped_file(::getpid(), current());
  if (::geteuid() != 0) GTEST_SKIP() << "map_files wants root";
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(content_of(*found), "old");
}

TEST_F(PathToMappedFile, AnonymousMemoryIsNoFile) {
  Mapping mapping;
  auto path = path_to_mapped_file(::getpid(), mapping);
  ASSERT_FALSE(path.has_value());
  EXPECT_EQ(path.error().message(), "anonymous memory is not a file");
}

}  // namespace
}  // namespace uscope::process
