// The journal in a process's memory: what was written is found again, and what lies is not believed.
#include <sys/wait.h>

#include <csignal>

#include "unit/engine/inproc/target/own_journal.h"

namespace uscope::engine::inproc {
namespace {

class JournalTrust : public OwnJournal {
 protected:
  void damage(uint64_t offset, uint64_t value) {
    ASSERT_TRUE(
        remote_->write({uint64_t(memory_) + offset}, {reinterpret_cast<uint8_t*>(&value), sizeof value}));
  }
};

TEST_F(JournalTrust, IsFoundWithAllThatWasNoted) {
  auto journal = Journal::create(*remote_, where(), contents());
  ASSERT_TRUE(journal);
  EXPECT_EQ(found().size(), 1u);
  Patch second = patch_at(0x2000);
  second.hole_offset = 0;
  ASSERT_TRUE(journal->add(*remote_, std::vector<Patch>{patch_at(0x1000)}));
  ASSERT_TRUE(journal->add(*remote_, std::vector<Patch>{second}));
  const auto all = found();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].owner, Owner::self());
  ASSERT_EQ(all[0].patches.size(), 2u);
  EXPECT_EQ(all[0].patches[0].address.value, 0x1000u);
  EXPECT_TRUE(std::ranges::equal(all[0].patches[0].original_bytes(), patch_at(0).original_bytes()));
  EXPECT_TRUE(std::ranges::equal(all[0].patches[0].replacement_bytes(), patch_at(0).replacement_bytes()));
  EXPECT_FALSE(all[0].patches[0].hole_offset);
  EXPECT_EQ(all[0].patches[1].hole_offset, 0);
  EXPECT_TRUE(journal->is_present(*remote_));
}

TEST_F(JournalTrust, TakesNoMoreThanItHasRoomFor) {
  auto journal = Journal::create(*remote_, where(), contents());
  ASSERT_TRUE(journal);
  const size_t room = journal->room();
  EXPECT_GE(room, 100u);
  EXPECT_FALSE(journal->add(*remote_, std::vector<Patch>(room + 1, patch_at(0x1000))));
  EXPECT_TRUE(journal->add(*remote_, std::vector<Patch>(room, patch_at(0x1000))));
  EXPECT_EQ(journal->room(), 0u);
  EXPECT_EQ(found()[0].patches.size(), room);
}

TEST_F(JournalTrust, IsNotBelievedWhereItLies) {
  JournalContents lie = contents();
  // As if uscope had mapped this program's own code.
  lie.mappings.push_back({{uint64_t(&patch_at) & ~uint64_t(4095)}, 4096});
  ASSERT_TRUE(Journal::create(*remote_, where(), lie));
  EXPECT_TRUE(found().empty());
}

TEST_F(JournalTrust, IsNotBelievedWhenItDoesNotNameItself) {
  JournalContents lie = contents();
  lie.mappings.clear();
  ASSERT_TRUE(Journal::create(*remote_, where(), lie));
  EXPECT_TRUE(found().empty());
}

TEST_F(JournalTrust, GarbageIsNone) {
  auto journal = Journal::create(*remote_, where(), contents());
  ASSERT_TRUE(journal);
  for (uint64_t offset = 0; offset < 64; offset += 8) {
    const auto before = remote_->read_value<uint64_t>({uint64_t(memory_) + offset});
    ASSERT_TRUE(before);
    damage(offset, 0xffffffffffffffff);
    for (const JournalContents& each : found()) EXPECT_LE(each.patches.size(), 100u + 4096 / 48);
    damage(offset, *before);
  }
  damage(0, 0);
  EXPECT_TRUE(found().empty());
  EXPECT_FALSE(journal->is_present(*remote_));
}

TEST(JournalOwner, KnowsWhoIsAlive) {
  EXPECT_EQ(Owner::self().is_alive(), true);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  Owner owner = Owner::self();
  owner.pid = child;
  EXPECT_EQ(owner.is_alive(), false) << "started at another time";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(owner.is_alive(), false);
  owner.pid_namespace ^= 1;
  EXPECT_EQ(owner.is_alive(), std::nullopt);
}

}  // namespace
}  // namespace uscope::engine::inproc
