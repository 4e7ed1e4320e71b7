#include "process/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "child.h"

namespace uscope::process {
namespace {

// Two pages, of which the second cannot be read; the first ends in "tail".
class TwoPages : public testing::Test {
 protected:
  void SetUp() override {
    auto* pages =
        static_cast<char*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    std::memcpy(pages, "hello", 6);
    std::memcpy(pages + 4092, "tail", 4);
    ::munmap(pages + 4096, 4096);
    start_ = {reinterpret_cast<uint64_t>(pages)};
  }
  void TearDown() override { ::munmap(reinterpret_cast<void*>(start_.value), 4096); }
  ProcessAddr start_;
};

TEST_F(TwoPages, ReadsValuesAndText) {
  Child child([] { return sleep_forever(); });
  auto memory = RemoteMemory::open(child.pid());
  ASSERT_TRUE(memory.has_value()) << memory.error().message();
  EXPECT_EQ(memory->read_cstring(start_, 100).value(), "hello");
  EXPECT_EQ(memory->read_cstring(start_, 3).value(), "hel");
  EXPECT_EQ(memory->read_value<uint16_t>(start_).value(), 'h' | 'e' << 8);
}

TEST_F(TwoPages, ReadsUpToTheUnreadable) {
  Child child([] { return sleep_forever(); });
  auto memory = RemoteMemory::open(child.pid());
  ASSERT_TRUE(memory.has_value());
  uint8_t buffer[16] = {};
  EXPECT_EQ(memory->read_some(start_ + 4092, buffer), 4u);
  EXPECT_EQ(std::memcmp(buffer, "tail", 4), 0);
  EXPECT_EQ(memory->read_some(start_ + 4096, buffer), 0u);
  EXPECT_FALSE(memory->read(start_ + 4092, buffer).has_value());
  EXPECT_FALSE(memory->read_cstring(start_ + 4092, 100).has_value());
  for (uint64_t odd :
       {uint64_t(0), uint64_t(1), ~uint64_t(0), uint64_t(1) << 63, uint64_t(0xffffffffff600000)})
    EXPECT_EQ(memory->read_some({odd}, buffer), 0u) << odd;
}

__attribute__((noinline, section(".text.patched"))) int answer() {
  asm volatile("");
  return 42;
}

TEST(RemoteMemory, WritesDataAndCodeWithoutTouchingOurs) {
  Child child([] {
    while (answer() == 42) ::usleep(1000);
    return answer();
  });
  auto memory = RemoteMemory::open(child.pid());
  ASSERT_TRUE(memory.has_value());
  const uint8_t code[] = {0xb8, 7, 0, 0, 0, 0xc3};  // mov eax, 7; ret
  ASSERT_TRUE(memory->write({reinterpret_cast<uint64_t>(&answer)}, code).has_value());
  EXPECT_EQ(child.wait(), 7);
  EXPECT_EQ(answer(), 42);
}

TEST(RemoteMemory, APidThatIsReusedIsNotReadByMistake) {
  static int value = 5;
  std::optional<RemoteMemory> memory;
  {
    Child child([] { return sleep_forever(); });
    memory.emplace(*RemoteMemory::open(child.pid()));
    EXPECT_TRUE(memory->read_value<int>({reinterpret_cast<uint64_t>(&value)}).has_value());
  }
  EXPECT_FALSE(memory->read_value<int>({reinterpret_cast<uint64_t>(&value)}).has_value());
  uint8_t byte[] = {1};
  EXPECT_FALSE(memory->write({reinterpret_cast<uint64_t>(&value)}, byte).has_value());
}

}  // namespace
}  // namespace uscope::process
