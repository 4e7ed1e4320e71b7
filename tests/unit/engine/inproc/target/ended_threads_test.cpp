// A child with a table of threads as probes would have made it: which of its slots are taken from whom.
#include "engine/inproc/target/ended_threads.h"

#include <gtest/gtest.h>
#include <immintrin.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "engine/inproc/runtime/layout.h"
#include "process/memory.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kShared = 0x5000;  // only compared

uint64_t thread_pointer() {
  uint64_t pointer;
  __asm__("mov %%fs:0, %0" : "=r"(pointer));  // glibc's points to itself
  return pointer;
}

class EndedThreadsTest : public testing::Test {
 protected:
  EndedThreadsTest()
      : private_(static_cast<uint8_t*>(mmap(nullptr, kPrivateBytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    PrivateHeader header{};
    header.alive = kAlive;
    header.shared = kShared;
    std::memcpy(private_, &header, sizeof header);
  }
  ~EndedThreadsTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    munmap(private_, kPrivateBytes);
  }

  ThreadEntry* entries() { return reinterpret_cast<ThreadEntry*>(private_ + kThreadsOffset); }
  Slot* slot(uint32_t number) {
    return reinterpret_cast<Slot*>(private_ + kFirstSlotHeader + (uint64_t(number) << kSlotShift));
  }
  // As find_slot would, at the first free place.
  size_t add(uint64_t tag, uint32_t number) {
    size_t at = thread_entry_of(tag);
    while (entries()[at].tag != 0) at = (at + 1) % (size_t(1) << kThreadEntryBits);
    entries()[at] = {tag, uint64_t(slot(number))};
    slot(number)->tag = slot(number)->claimed = tag;
    slot(number)->values = 1;
    slot(number)->chunk = 5;
    return at;
  }
  // Several tags that are looked for at the same place.
  static std::vector<uint64_t> same_place(size_t count) {
    std::vector<uint64_t> tags{0x7f0000001001};
    for (uint64_t tag = tags[0] + 0x1000; tags.size() < count; tag += 0x1000)
      if (thread_entry_of(tag) == thread_entry_of(tags[0])) tags.push_back(tag);
    return tags;
  }

  Result<EndedThreads> look(const std::vector<uint32_t>& numbers) {
    child_ = fork();
    if (child_ == 0)
      for (;;) pause();
    return take_from_ended({child_, {uint64_t(private_)}, {kShared}, numbers}, {});
  }
  template <typename T>
  T in_child(const void* at) {
    return process::RemoteMemory::open(child_)->read_value<T>({uint64_t(at)}).value();
  }

  uint8_t* private_;
  pid_t child_ = -1;
};

TEST_F(EndedThreadsTest, TakesFromThoseThatAreNotThere) {
  const size_t mine = add(thread_pointer() + 1, 1), gone = add(0x7f0000001001, 2);
  *reinterpret_cast<uint32_t*>(private_ + kHintsOffset) = 123;
  auto ended = look({1, 2});
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_EQ(ended->numbers, std::vector<uint32_t>{2});
  EXPECT_EQ(in_child<uint64_t>(&entries()[mine].tag), thread_pointer() + 1);
  EXPECT_EQ(in_child<uint64_t>(&entries()[gone].tag), 0u);
  EXPECT_EQ(in_child<uint64_t>(&entries()[gone].slot), 0u);
  EXPECT_EQ(in_child<uint32_t>(private_ + kHintsOffset), 0u);
  EXPECT_EQ(in_child<uint64_t>(&slot(1)->values), 1u);
  for (const uint64_t* word : {&slot(2)->tag, &slot(2)->claimed, &slot(2)->values})
    EXPECT_EQ(in_child<uint64_t>(word), 0u);
  EXPECT_EQ(in_child<uint32_t>(&slot(2)->chunk), 0u);
  EXPECT_EQ(in_child<uint32_t>(&slot(2)->had_another_thread), 1u);
}

TEST_F(EndedThreadsTest, LeavesASlotThatAProbeIsStillIn) {
  const size_t at = add(0x7f0000001001, 2);
  slot(2)->busy = 0x7ffe00000000;
  auto ended = look({2});
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->numbers.empty());
  EXPECT_EQ(in_child<uint64_t>(&entries()[at].tag), 0x7f0000001001u);
  EXPECT_EQ(in_child<uint64_t>(&slot(2)->values), 1u);
}

// Of another process in the same memory, say.
TEST_F(EndedThreadsTest, LeavesSlotsThatItWasNotAskedFor) {
  const size_t at = add(0x7f0000001001, 2);
  auto ended = look({1});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->numbers, std::vector<uint32_t>{1});  // which nobody has
  EXPECT_EQ(in_child<uint64_t>(&entries()[at].tag), 0x7f0000001001u);
}

TEST_F(EndedThreadsTest, LeavesTheWayToThreadsBehindThemAlone) {
  const std::vector<uint64_t> tags = same_place(4);
  std::vector<size_t> at;
  for (uint32_t i = 0; i < 4; i++) at.push_back(add(tags[i], i + 1));
  slot(3)->busy = 1;  // stays
  auto ended = look({1, 2, 3, 4});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->numbers, (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(in_child<uint64_t>(&entries()[at[0]].tag), kEndedThread);
  EXPECT_EQ(in_child<uint64_t>(&entries()[at[1]].tag), kEndedThread);
  EXPECT_EQ(in_child<uint64_t>(&entries()[at[2]].tag), tags[2]);
  EXPECT_EQ(in_child<uint64_t>(&entries()[at[3]].tag), 0u);
}

TEST_F(EndedThreadsTest, TouchesNoProcessThatIsNotTraced) {
  add(0x7f0000001001, 2);
  reinterpret_cast<PrivateHeader*>(private_)->shared = kShared + 1;
  EXPECT_FALSE(look({2}));
  EXPECT_EQ(in_child<uint64_t>(&slot(2)->values), 1u);
}

}  // namespace
}  // namespace uscope::engine::inproc
