// What the journal notes, forgets and confirms.
#include "unit/engine/inproc/target/own_journal.h"

namespace uscope::engine::inproc {
namespace {

class JournalTest : public OwnJournal {
 protected:
  void SetUp() override {
    OwnJournal::SetUp();
    auto journal = Journal::create(*remote_, where(), contents());
    ASSERT_TRUE(journal);
    journal_.emplace(std::move(*journal));
  }
  JournalContents read() {
    auto all = found();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? JournalContents() : all[0];
  }

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
