#include "engine/inproc/target/journal.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

namespace uscope::engine::inproc {
namespace {

// A journal in this very process.
class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    Fd memory(::memfd_create("uscope", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memory.get(), off_t(kSize)), 0);
    at_ = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE, memory.get(), 0);
    ASSERT_NE(at_, MAP_FAILED);
    auto remote = process::RemoteMemory::open(::getpid());
    ASSERT_TRUE(remote);
    remote_.emplace(std::move(*remote));
    JournalContents contents;
    contents.owner = Owner::self();
    contents.mappings = {where()};
    auto journal = Journal::create(*remote_, where(), contents);
    ASSERT_TRUE(journal);
    journal_.emplace(std::move(*journal));
  }
  void TearDown() override { ::munmap(at_, kSize); }

  AddressSpan where() const { return {{uint64_t(at_)}, kSize}; }
  JournalContents read() {
    auto maps = process::Maps::of(::getpid());
    auto found = Journal::find_all(*remote_, *maps);
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? JournalContents() : found[0];
  }
  static Patch patch_at(uint64_t address) {
    Patch patch;
    patch.address = {address};
    patch.size = 5;
    patch.original = {1, 2, 3, 4, 5};
    patch.replacement = {0xe9, 0, 0, 0, 0};
    return patch;
  }

  static constexpr uint64_t kSize = 8192;
  void* at_ = nullptr;
  std::optional<process::RemoteMemory> remote_;
  std::optional<Journal> journal_;
};

TEST_F(JournalTest, SemaphoresCountOnceTheyAreConfirmed) {
  const std::vector<ProcessAddr> semaphores = {{0x5000}, {0x6000}};
  ASSERT_TRUE(journal_->add_semaphores(*remote_, semaphores));
  EXPECT_TRUE(read().semaphores.empty());
  EXPECT_TRUE(read().patches.empty());
  ASSERT_TRUE(journal_->confirm_semaphores(*remote_));
  EXPECT_EQ(read().semaphores, semaphores);
}

TEST_F(JournalTest, ForgetsWhatIsGoneAndKeepsTheRest) {
  const std::vector<Patch> patches = {patch_at(0x1000), patch_at(0x2000), patch_at(0x3000)};
  ASSERT_TRUE(journal_->add(*remote_, patches));
  const std::vector<ProcessAddr> semaphores = {{0x2800}, {0x4800}};
  ASSERT_TRUE(journal_->add_semaphores(*remote_, semaphores));
  ASSERT_TRUE(journal_->confirm_semaphores(*remote_));
  EXPECT_EQ(read().patches.size(), 3u);
  const std::vector<AddressSpan> gone = {{{0x2000}, 0x1000}};
  ASSERT_TRUE(journal_->forget(*remote_, gone));
  // What comes afterwards goes where it would have gone.
  const std::vector<Patch> later = {patch_at(0x2000)};
  ASSERT_TRUE(journal_->add(*remote_, later));
  const JournalContents now = read();
  ASSERT_EQ(now.patches.size(), 3u);
  EXPECT_EQ(now.patches[0].address.value, 0x1000u);
  EXPECT_EQ(now.patches[1].address.value, 0x3000u);
  EXPECT_EQ(now.patches[2].address.value, 0x2000u);
  EXPECT_EQ(now.semaphores, std::vector<ProcessAddr>{{0x4800}});
}

TEST_F(JournalTest, IsFullAtSomeTime) {
  const std::vector<Patch> many(journal_->room() + 1, patch_at(0x1000));
  EXPECT_FALSE(journal_->add(*remote_, many));
  EXPECT_TRUE(read().patches.empty());
}

}  // namespace
}  // namespace uscope::engine::inproc
