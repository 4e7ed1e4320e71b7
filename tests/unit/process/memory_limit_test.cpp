#include "process/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace uscope::process {
namespace {

class GroupMemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("memory-limit-" + std::to_string(::getpid()));
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& group, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(root_ / group);
    std::ofstream(root_ / group / file) << text;
  }

  std::filesystem::path root_;
};

TEST_F(GroupMemoryLimit, IsTheLeastOfThoseAround) {
  write("a/b", "memory.max", "max\n");
  write("a", "memory.max", "209715200\n");
  EXPECT_EQ(group_memory_limit("0::/a/b\n", root_), 209715200u);
  write("a/b", "memory.max", "104857600\n");
  EXPECT_EQ(group_memory_limit("0::/a/b\n", root_), 104857600u);
  EXPECT_EQ(group_memory_limit("0::/\n", root_), UINT64_MAX);
}

TEST_F(GroupMemoryLimit, OfTheFirstVersionToo) {
  write("memory/job", "memory.limit_in_bytes", "8388608\n");
  EXPECT_EQ(group_memory_limit("5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n", root_), 8388608u);
}

TEST_F(GroupMemoryLimit, IsNoneWhereNothingIsSaid) {
  EXPECT_EQ(group_memory_limit("", root_), UINT64_MAX);
  EXPECT_EQ(group_memory_limit("nonsense\n0::\n", root_), UINT64_MAX);
  EXPECT_GT(memory_limit_of(::getpid()), uint64_t(1) << 20);
}

}  // namespace
}  // namespace uscope::process
