// Which rung of the ladder a site gets, and what is refused: on functions of a few bytes.
#include "engine/inproc/target/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "made_up_image.h"

namespace uscope::engine::inproc {
namespace {

ImagePlan plan(MadeUpImage& image, std::initializer_list<uint64_t> addresses) {
  std::vector<SiteRequest> sites;
  for (uint64_t address : addresses) sites.push_back({ImageAddr{address}});
  return plan_image(image, sites);
}

std::string refusal(const ImagePlan& plan, size_t site) {
  for (const SiteRefusal& each : plan.refused)
    if (each.site == site) return each.reason;
  return "";
}

// push %rbp; mov %rsp,%rbp; sub $16,%rsp; leave; ret
const auto kFramed = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3};

TEST(Plan, AnEntryIsAJumpInPlaceBehindThePush) {
  MadeUpImage image;
  const uint64_t f = image.add(kFramed);
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u);
  const PatchPlan& patch = made.patches[0];
  EXPECT_EQ(patch.window.start, f + 1);
  EXPECT_EQ(patch.window.end, f + 8);
  EXPECT_EQ(tactic_of(patch, patch.probes[0]), Tactic::in_place);
  EXPECT_FALSE(patch.probes[0].red_zone_in_use);
  EXPECT_TRUE(patch.probes[0].flags_dead);
  ASSERT_TRUE(patch.probes[0].behind);
  EXPECT_EQ(patch.probes[0].behind->stack_change, -8);
  EXPECT_TRUE(patch.probes[0].behind->again.empty());
}

TEST(Plan, AnInstructionInTheMiddleIsNoEntry) {
  MadeUpImage image;
  const uint64_t f = image.add({0x90, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3});
  ImagePlan made = plan(image, {f + 1});
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(made.patches[0].window.start, f + 1);
  EXPECT_FALSE(made.patches[0].probes[0].behind);
}

// mov %edi,%eax; add %esi,%eax; add %edx,%eax; ret: what was in rax is gone behind the first one.
TEST(Plan, TheFirstInstructionStaysOnlyForWhoDoesNotReadWhatItChanges) {
  MadeUpImage image;
  const uint64_t f = image.add({0x89, 0xf8, 0x01, 0xf0, 0x01, 0xd0, 0x90, 0xc3});
  SiteRequest site{ImageAddr{f}};
  auto start = [&](x86::RegisterSet read) {
    site.read = read;
    return plan_image(image, std::span(&site, 1)).patches.at(0).window.start;
  };
  EXPECT_EQ(start(x86::all_registers), f);
  EXPECT_EQ(start(bit(x86::Register::rax)), f);
  EXPECT_EQ(start(bit(x86::Register::rdi) | bit(x86::Register::rsp)), f + 2);
  // Probes of one place stay together.
  const SiteRequest both[] = {{ImageAddr{f}, 0, 0, {}, false, 0}, {ImageAddr{f}, 1, 0}};
  const ImagePlan made = plan_image(image, both);
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(made.patches[0].window.start, f);
  EXPECT_EQ(made.patches[0].probes.at(0).site, 0u);
  EXPECT_EQ(made.patches[0].probes.at(1).site, 1u);
}

// cmp $5,%edi; jb +2; nop; nop; ret: the flags are needed behind the probe.
TEST(Plan, AComparisonIsMadeAgain) {
  MadeUpImage image;
  const uint64_t f = image.add({0x83, 0xff, 0x05, 0x72, 0x04, 0x89, 0xf8, 0x90, 0xc3, 0xc3});
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(made.patches[0].window.start, f + 3);
  EXPECT_FALSE(made.patches[0].probes[0].flags_dead);
  ASSERT_TRUE(made.patches[0].probes[0].behind);
  EXPECT_EQ(made.patches[0].probes[0].behind->again.size(), 3u);
}

// The probe of the entry that sits on the function's return is the first to run there.
TEST(Plan, AnEntryComesBeforeAnExitAtTheSameInstruction) {
  MadeUpImage image;
  const uint64_t f = image.add({0x53, 0xc3});
  image.fill_up(14);
  ImagePlan made = plan(image, {f + 1, f});
  ASSERT_EQ(made.patches.size(), 1u);
  ASSERT_EQ(made.patches[0].probes.size(), 2u);
  EXPECT_EQ(made.patches[0].window.start, f + 1);
  EXPECT_EQ(made.patches[0].probes[0].site, 1u);
  EXPECT_EQ(made.patches[0].probes[1].site, 0u);
}

TEST(Plan, AnEndbrStaysWhereItIs) {
  MadeUpImage image;
  const uint64_t f = image.add({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0x5d, 0xc3});
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(made.patches[0].window.start, f + 5);  // behind the push, where a cheap uprobe may be
  EXPECT_EQ(made.patches[0].probes[0].address.value, f + 5);
  EXPECT_EQ(made.patches[0].probes[0].behind->stack_change, -8);
}

TEST(Plan, AnEndbrStaysWhereItIsThoughThePushMustMove) {
  MadeUpImage image;
  // endbr64; push %rbp; mov %rsp,%rbp; again: dec %edi; jne again; leave; ret
  const uint64_t f =
      image.add({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x90, 0xff, 0xcf, 0x75, 0xfc, 0xc9, 0xc3});
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(made.patches[0].window.start, f + 4);
  EXPECT_EQ(made.patches[0].probes[0].behind->stack_change, 0);
}

TEST(Plan, AnExitTakesThePaddingBehindOrWhatStandsBefore) {
  MadeUpImage image;
  const uint64_t padded = image.add(kFramed);
  const uint64_t crowded =
      image.add({0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x31, 0xc0, 0x90, 0xc9, 0xc3});
  image.add(kFramed, 1);
  ImagePlan made = plan(image, {padded + 9, crowded + 12});
  ASSERT_EQ(made.patches.size(), 2u);
  EXPECT_EQ(tactic_of(made.patches[0], made.patches[0].probes[0]), Tactic::into_padding);
  EXPECT_EQ(made.patches[0].window.padding, 4u);
  EXPECT_EQ(tactic_of(made.patches[1], made.patches[1].probes[0]), Tactic::absorbing);
  EXPECT_EQ(made.patches[1].window.start, crowded + 8);
}

TEST(Plan, ATinyFunctionsEntryAndExitAreOnePatch) {
  MadeUpImage image;
  const uint64_t f = image.add({0x89, 0xf8, 0xc3});  // mov %edi,%eax; ret
  image.add(kFramed);
  ImagePlan made = plan(image, {f, f + 2});
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(made.patches[0].probes.size(), 2u);
}

TEST(Plan, AShortJumpGoesToPaddingNearby) {
  MadeUpImage image;
  const uint64_t f = image.add({0x89, 0xf8, 0xc3});
  image.add(kFramed, 1);
  image.fill_up(16);
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u);
  ASSERT_TRUE(made.patches[0].hole);
  EXPECT_EQ(tactic_of(made.patches[0], made.patches[0].probes[0]), Tactic::short_jump_to_padding);
  EXPECT_EQ(made.patches[0].hole->address.value, f + 13);
}

TEST(Plan, ANeighboursInstructionsMakeRoomForAShortJump) {
  MadeUpImage image;
  const uint64_t f = image.add({0x89, 0xf8, 0xc3});
  const uint64_t neighbour = image.add(
      {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x7d, 0xf8, 0x31, 0xc0, 0xc9, 0xc3}, 1);
  image.add(kFramed, 1);
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u) << refusal(made, 0);
  ASSERT_TRUE(made.patches[0].hole && made.patches[0].hole->evicted);
  EXPECT_EQ(tactic_of(made.patches[0], made.patches[0].probes[0]), Tactic::short_jump_to_room);
  EXPECT_GE(made.patches[0].hole->evicted->window.start, neighbour);
  // But not where somebody may be parked in the middle.
  image.parks_anywhere = true;
  EXPECT_NE(refusal(plan(image, {f}), 0), "");
}

TEST(Plan, WhatIsJumpedIntoIsRefused) {
  MadeUpImage image;
  // push %rbx; again: dec %edi; jne again; pop %rbx; ret
  const uint64_t f = image.add({0x53, 0xff, 0xcf, 0x75, 0xfc, 0x5b, 0xc3});
  ImagePlan made = plan(image, {f});
  EXPECT_TRUE(made.patches.empty());
  EXPECT_NE(refusal(made, 0).find("jumps to"), std::string::npos) << refusal(made, 0);
}

TEST(Plan, AJumpFromAnotherFunctionCountsToo) {
  MadeUpImage image;
  const uint64_t f = image.add(kFramed);
  const uint64_t g = image.add({0x55, 0xeb, 0x00, 0x90, 0x90, 0x90});
  image.patch_text(g + 2, {int(uint8_t(f + 1 - (g + 3)))});  // jmp f + 1
  ImagePlan made = plan(image, {f});
  EXPECT_TRUE(made.patches.empty());
  EXPECT_NE(refusal(made, 0), "");
}

// kFramed with a nop first: its second instruction may be jumped to, then it is none to stand on.
TEST(Plan, WhereSomethingLeadsBehindTheFirstInstructionItIsMovedAlong) {
  MadeUpImage image;
  const uint64_t f = image.add({0x0f, 0x1f, 0x44, 0x00, 0x00, 0x55, 0x48, 0x89, 0xe5, 0xc9, 0xc3});
  EXPECT_EQ(plan(image, {f}).patches.at(0).window.start, f + 6);
  const uint64_t g = image.add({0x55, 0xeb, 0x00, 0x90, 0x90, 0x90});
  image.patch_text(g + 2, {int(uint8_t(f + 5 - (g + 3)))});  // jmp f + 5
  ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u) << refusal(made, 0);
  EXPECT_EQ(made.patches[0].window.start, f);
  EXPECT_FALSE(made.patches[0].probes[0].behind);
}

TEST(Plan, SystemCallsStayWhereTheyAre) {
  MadeUpImage image;
  const uint64_t f = image.add({0x0f, 0x05, 0x90, 0x90, 0x90, 0xc3});
  EXPECT_NE(refusal(plan(image, {f}), 0).find("system call"), std::string::npos);
}

// push %rbp; mov %rsp,%rbp; mov 8(%rax),%rax; pop %rbp; ret: as Go ends its functions since 1.21
const auto kLoads = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x40, 0x08, 0x5d, 0xc3};

TEST(Plan, WhatMayPanicInGoStaysWhereItIs) {
  MadeUpImage image;
  const uint64_t f = image.add(kLoads);
  image.add(kFramed, 1);
  ImagePlan made = plan(image, {f + 9});
  EXPECT_EQ(made.patches.at(0).window.start, f + 4) << "where nobody asks, the load is moved";
  image.faults.panics = true;
  EXPECT_NE(refusal(plan(image, {f + 9}), 0), "") << "no place for a short jump to go on from";
  image.fill_up(16);
  made = plan(image, {f, f + 9});
  ASSERT_EQ(made.patches.size(), 2u) << refusal(made, 0) << refusal(made, 1);
  EXPECT_EQ(made.patches[0].window.end, f + 4);
  EXPECT_EQ(made.patches[1].window.start, f + 8);
  EXPECT_EQ(tactic_of(made.patches[1], made.patches[1].probes[0]), Tactic::short_jump_to_padding);
}

TEST(Plan, WhatMayPanicInGoIsMovedWhereTheReturnAddressIsOnTop) {
  MadeUpImage image;
  image.faults.panics = true;
  const uint64_t f = image.add({0x48, 0x8b, 0x40, 0x08, 0xc3});  // mov 8(%rax),%rax; ret
  const ImagePlan made = plan(image, {f});
  ASSERT_EQ(made.patches.size(), 1u) << refusal(made, 0);
  EXPECT_EQ(made.patches[0].window.start, f);
}

TEST(Plan, NoRoomIsMadeByMovingWhatMayPanic) {
  MadeUpImage image;
  const uint64_t f = image.add({0x89, 0xf8, 0xc3});
  // push %rbp; mov %rsp,%rbp; mov 8(%rax),%rax three times; pop %rbp; ret
  image.add({0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x40, 0x08, 0x48, 0x8b, 0x40, 0x08, 0x48, 0x8b, 0x40, 0x08,
             0x5d, 0xc3},
            1);
  image.add(kFramed, 1);
  const ImagePlan made = plan(image, {f});
  ASSERT_TRUE(made.patches.at(0).hole && made.patches[0].hole->evicted);
  image.faults.panics = true;
  EXPECT_NE(refusal(plan(image, {f}), 0), "");
}

TEST(Plan, WhatIsCaughtByItsPlaceStaysThere) {
  MadeUpImage image;
  const uint64_t f = image.add(kLoads);
  image.add(kFramed, 1);
  uint64_t caught = f + 4;
  image.faults.lands = [&](uint64_t address) { return address == caught; };
  EXPECT_NE(refusal(plan(image, {f + 9}), 0), "");
  caught = f + 8;  // the pop cannot fault
  EXPECT_EQ(plan(image, {f + 9}).patches.at(0).window.start, f + 4);
}

TEST(Plan, ForbiddenIsForbidden) {
  MadeUpImage image;
  const uint64_t f = image.add(kFramed);
  image.forbidden = "it must stay as it is";
  EXPECT_EQ(refusal(plan(image, {f}), 0), "it must stay as it is");
  EXPECT_EQ(refusal(plan(image, {0x100}), 0), "it is in no function whose bounds are known");
}

// mov %rdi,%rax; cmp $100,%rdi; ja 2f; test $1,%dil; je 1f; add %rdi,%rax; sub $7,%rax; 1: ret; 2: neg %rax;
// ret
const auto kLoneReturn = {0x48, 0x89, 0xf8, 0x48, 0x83, 0xff, 0x64, 0x77, 0x0e, 0x40, 0xf6, 0xc7, 0x01, 0x74,
                          0x07, 0x48, 0x01, 0xf8, 0x48, 0x83, 0xe8, 0x07, 0xc3, 0x48, 0xf7, 0xd8, 0xc3};

TEST(Plan, AnExitThatJumpsLeadToIsProbedOnTheWaysToIt) {
  MadeUpImage image;
  const uint64_t f = image.add(kLoneReturn);
  image.add(kFramed);
  ImagePlan made = plan(image, {f + 22});
  // Windows that overlap are one.
  ASSERT_EQ(made.patches.size(), 1u) << refusal(made, 0);
  EXPECT_EQ(made.patches[0].window.start, f + 13);
  EXPECT_EQ(made.patches[0].window.end, f + 22);
  ASSERT_EQ(made.patches[0].probes.size(), 2u);
  const PlannedProbe& by_jump = made.patches[0].probes[0];
  EXPECT_EQ(by_jump.address.value, f + 13);
  EXPECT_EQ(by_jump.only_if, 4);  // je
  EXPECT_EQ(tactic_of(made.patches[0], by_jump), Tactic::on_the_ways);
  EXPECT_FALSE(by_jump.red_zone_in_use);
  const PlannedProbe& from_above = made.patches[0].probes[1];
  EXPECT_EQ(from_above.address.value, f + 22);
  EXPECT_EQ(from_above.only_if, std::nullopt);
  EXPECT_TRUE(from_above.flags_dead);
}

TEST(Plan, AnExitWithAWayThatIsNotKnownIsRefused) {
  MadeUpImage image;
  const uint64_t f = image.add(kLoneReturn);
  image.add(kFramed);
  image.ways = {f + 22};  // an exception lands there
  ImagePlan made = plan(image, {f + 22});
  EXPECT_TRUE(made.patches.empty());
  EXPECT_NE(refusal(made, 0), "");
}

TEST(Plan, AnExitIsRefusedWhereOneWayToItCannotBePatched) {
  MadeUpImage image;
  // test %edi,%edi; je 1f; syscall; 1: ret; 2: ret
  const uint64_t f = image.add({0x85, 0xff, 0x74, 0x02, 0x0f, 0x05, 0xc3, 0xc3});
  image.add(kFramed, 1);
  ImagePlan made = plan(image, {f + 6});
  EXPECT_TRUE(made.patches.empty());
  EXPECT_NE(refusal(made, 0), "");
}

TEST(Plan, ASiteWhoseWaysAreNotAllPlannedHasNone) {
  MadeUpImage image;
  const uint64_t f = image.add(kLoneReturn);
  EXPECT_EQ(plan(image, {f, f + 22}).patches.size(), 2u);
  // What runs into the return has no room for more than a short jump now, and there is no hole for it.
  image.ways = {f + 18};
  ImagePlan made = plan(image, {f, f + 22});
  EXPECT_NE(refusal(made, 1).find("no place within its reach"), std::string::npos) << refusal(made, 1);
  ASSERT_EQ(made.patches.size(), 1u);
  ASSERT_EQ(made.patches[0].probes.size(), 1u);
  EXPECT_EQ(made.patches[0].probes[0].site, 0u);
}

// A switch whose cases nobody can follow: nothing bounds its index.
// push %rbp; lea table(%rip),%rax; movslq (%rax,%rdi,4),%rdx; add %rax,%rdx; jmp *%rdx
uint64_t add_switch(MadeUpImage& image) {
  const uint64_t f =
      image.add({0x55, 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x48, 0x63, 0x14, 0xb8, 0x48, 0x01, 0xc2, 0xff, 0xe2});
  const auto distance = uint32_t(MadeUpImage::data_base - (f + 8));
  image.patch_text(f + 4, {int(distance & 0xff), int(distance >> 8 & 0xff), int(distance >> 16 & 0xff),
                           int(distance >> 24 & 0xff)});
  image.data_bytes.resize(64, 0xff);
  return f;
}

void set_case(MadeUpImage& image, size_t number, uint64_t target) {
  const auto offset = int32_t(target - MadeUpImage::data_base);
  std::memcpy(&image.data_bytes[4 * number], &offset, sizeof offset);
}

TEST(Plan, AFunctionAloneIsTreatedAsAmongMany) {
  MadeUpImage image;
  const uint64_t f = add_switch(image);
  set_case(image, 0, f + 8);
  set_case(image, 1, f + 12);
  ImagePlan made = plan(image, {f});
  EXPECT_EQ(refusal(made, 0), "");
  ASSERT_EQ(made.patches.size(), 1u);
  EXPECT_EQ(tactic_of(made.patches[0], made.patches[0].probes[0]), Tactic::in_place);
  set_case(image, 2, f + 1);
  EXPECT_NE(refusal(plan(image, {f}), 0), "");
  set_case(image, 2, f + 12);
  image.ways = {f + 1};
  EXPECT_NE(refusal(plan(image, {f}), 0), "");
  image.ways.clear();
  image.knows_entries = false;
  EXPECT_NE(refusal(plan(image, {f}), 0), "");
}

TEST(Plan, APointerInTheDataCountsForOneAlone) {
  MadeUpImage image;
  const uint64_t f = image.add(kFramed);
  const uint64_t target = f + 1, middle = f + 2;
  image.data_bytes.resize(64);
  std::memcpy(&image.data_bytes[8], &middle, sizeof middle);
  EXPECT_EQ(refusal(plan(image, {f}), 0), "") << "no instruction begins there";
  std::memcpy(&image.data_bytes[16], &target, sizeof target);
  EXPECT_NE(refusal(plan(image, {f}), 0), "");
}

// Enough functions that only their entries are looked at.
class ManyFunctions : public ::testing::Test {
 protected:
  ManyFunctions() {
    for (int i = 0; i < 300; ++i) sites_.push_back({ImageAddr{image_.add(kFramed)}});
  }
  size_t refused() { return plan_image(image_, sites_).refused.size(); }

  MadeUpImage image_;
  std::vector<SiteRequest> sites_;
};

TEST_F(ManyFunctions, ArePlannedByTheirEntriesAlone) {
  const ImagePlan quick = plan_image(image_, sites_);
  EXPECT_EQ(image_.whole_functions, 0u);
  image_.knows_entries = false;
  const ImagePlan slow = plan_image(image_, sites_);
  EXPECT_GE(image_.whole_functions, 300u);
  ASSERT_EQ(quick.patches.size(), 300u);
  ASSERT_EQ(slow.patches.size(), 300u);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(quick.patches[i].window.start, slow.patches[i].window.start);
    EXPECT_EQ(quick.patches[i].window.end, slow.patches[i].window.end);
    EXPECT_EQ(quick.patches[i].probes[0].flags_dead, slow.patches[i].probes[0].flags_dead);
    // Whether its own code jumps back to the entry only who follows it knows.
    EXPECT_TRUE(quick.patches[i].probes[0].red_zone_in_use);
    EXPECT_FALSE(slow.patches[i].probes[0].red_zone_in_use);
    ASSERT_TRUE(quick.patches[i].probes[0].behind && slow.patches[i].probes[0].behind);
    EXPECT_EQ(quick.patches[i].probes[0].behind->stack_change,
              slow.patches[i].probes[0].behind->stack_change);
  }
}

TEST_F(ManyFunctions, HaveTheirFirstInstructionMovedWhereSomethingLeadsBehindIt) {
  // nop; push %rbp; mov %rsp,%rbp; sub $16,%rsp; leave; ret, and once more with a jump from its end to the
  // push
  const uint64_t plain =
      image_.add({0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3});
  const uint64_t again = image_.add(
      {0x0f, 0x1f, 0x44, 0, 0, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0x75, 0xf5, 0xc3});
  sites_.push_back({ImageAddr{plain}});
  sites_.push_back({ImageAddr{again}});
  const ImagePlan made = plan_image(image_, sites_);
  ASSERT_EQ(made.patches.size(), 302u);
  EXPECT_EQ(made.patches[0].window.start, sites_[0].address.value + 1);
  EXPECT_EQ(made.patches[300].window.start, plain + 6);
  EXPECT_EQ(made.patches[301].window.start, again);
  EXPECT_EQ(image_.whole_functions, 1u);
}

TEST_F(ManyFunctions, AreLookedAtWhollyWhereTheyMayPanic) {
  image_.faults.panics = true;
  const uint64_t loads = image_.add(kLoads);
  const uint64_t leaf = image_.add({0x48, 0x8b, 0x40, 0x08, 0x48, 0x89, 0xc3, 0xc3});
  image_.fill_up(16);
  sites_.push_back({ImageAddr{loads}});
  sites_.push_back({ImageAddr{leaf}});
  const ImagePlan made = plan_image(image_, sites_);
  ASSERT_EQ(made.patches.size(), 302u);
  EXPECT_EQ(made.patches[300].window.end, loads + 4);
  EXPECT_EQ(made.patches[301].window.start, leaf);
  EXPECT_GE(image_.whole_functions, 1u);
}

TEST_F(ManyFunctions, AreNotPatchedWhereTheyJumpIntoTheirOwnEntry) {
  sites_.push_back({ImageAddr{image_.add({0x53, 0xff, 0xcf, 0x75, 0xfc, 0x5b, 0xc3})}});
  EXPECT_EQ(refused(), 1u);
}

TEST_F(ManyFunctions, AreNotPatchedWhereAnotherJumpsIntoThem) {
  const uint64_t g = image_.add({0xe9, 0, 0, 0, 0});
  const auto distance = uint32_t(sites_[7].address.value + 1 - (g + 5));
  image_.patch_text(g + 1, {int(distance & 0xff), int(distance >> 8 & 0xff), int(distance >> 16 & 0xff),
                            int(distance >> 24 & 0xff)});
  const ImagePlan made = plan_image(image_, sites_);
  ASSERT_EQ(made.refused.size(), 1u);
  EXPECT_EQ(made.refused[0].site, 7u);
}

TEST_F(ManyFunctions, AreNotPatchedWhereAnExceptionLandsInThem) {
  image_.ways = {sites_[9].address.value + 1};
  EXPECT_EQ(refused(), 1u);
}

TEST_F(ManyFunctions, AreNotPatchedWhereAPointerLeadsIntoThem) {
  const uint64_t target = sites_[3].address.value + 1;
  image_.data_bytes.resize(64);
  std::memcpy(&image_.data_bytes[16], &target, sizeof target);
  EXPECT_EQ(refused(), 1u);
}

TEST_F(ManyFunctions, AreLookedAtWhollyWhereTheyTakePlacesInThemselves) {
  // push %rbp; lea 1(%rip),%rax; nop; add %rdi,%rax; jmp *%rax
  const uint64_t f = image_.add({0x55, 0x48, 0x8d, 0x05, 0x01, 0, 0, 0, 0x90, 0x48, 0x01, 0xf8, 0xff, 0xe0});
  sites_.push_back({ImageAddr{f}});
  EXPECT_EQ(refused(), 1u);
  EXPECT_EQ(image_.whole_functions, 1u);
}

TEST_F(ManyFunctions, AreNotPatchedWhereTheirSwitchLeadsBackIntoTheirEntry) {
  const uint64_t f = add_switch(image_);
  sites_.push_back({ImageAddr{f}});
  set_case(image_, 0, f + 8);
  set_case(image_, 1, f + 12);
  EXPECT_EQ(refused(), 0u);
  set_case(image_, 2, f + 1);
  EXPECT_EQ(refused(), 1u);
}

}  // namespace
}  // namespace uscope::engine::inproc
