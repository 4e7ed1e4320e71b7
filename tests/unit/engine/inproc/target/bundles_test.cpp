// Patches that are made together or not at all.
#include "engine/inproc/target/bundles.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/engine/inproc/target/busy_child.h"

namespace uscope::engine::inproc {
namespace {

Patch at(uint64_t address, uint64_t via = 0) {
  Patch patch;
  patch.address = {address};
  patch.size = 5;
  patch.via = {via};
  return patch;
}

std::vector<uint64_t> addresses_of(const BuiltPatches& built) {
  std::vector<uint64_t> addresses;
  for (const Patch& patch : built.patches) addresses.push_back(patch.address.value);
  return addresses;
}

SiteRequest entry(uint64_t cookie) { return {{0}, 0, cookie}; }
SiteRequest exit_of(uint64_t cookie) {
  SiteRequest site{{0}, 0, cookie};
  site.needs_all = true;
  return site;
}

TEST(Bundles, AreTheExitsOfACookieAndThePatchesOfASite) {
  const std::vector<SiteRequest> sites = {entry(1), exit_of(1), exit_of(1), exit_of(2), entry(3)};
  BuiltPatches built;
  for (uint64_t address : {10, 20, 30, 40, 50, 60}) built.patches.push_back(at(address));
  built.sites_at = {{{10}, 0}, {{20}, 1}, {{30}, 2}, {{40}, 3}, {{50}, 4}, {{60}, 4}};
  bundle(built, sites);
  EXPECT_EQ(built.patches[0].bundle.value, 0u);
  EXPECT_NE(built.patches[1].bundle.value, 0u);
  EXPECT_EQ(built.patches[1].bundle, built.patches[2].bundle);
  EXPECT_NE(built.patches[3].bundle, built.patches[2].bundle);
  EXPECT_NE(built.patches[4].bundle.value, 0u);
  EXPECT_EQ(built.patches[4].bundle, built.patches[5].bundle);
}

TEST(Bundles, ThatMissAPartAreTakenOutWithTheirHoles) {
  const std::vector<SiteRequest> sites = {entry(1), exit_of(1), exit_of(1), exit_of(2)};
  BuiltPatches built;
  for (Patch patch : {at(10), at(20, 75), at(40), at(70)}) built.patches.push_back(patch);
  built.patches[3].hole_offset = 5;
  built.sites_at = {{{10}, 0}, {{20}, 1}, {{40}, 3}};
  built.refused = {{2, "changed"}};
  bundle(built, sites);
  EXPECT_EQ(addresses_of(built), (std::vector<uint64_t>{10, 40}));
  ASSERT_EQ(built.refused.size(), 2u);
  EXPECT_EQ(built.refused[1].site, 1u);
  EXPECT_EQ(built.refused[1].reason, "changed");
}

// One patch serves both: then neither's can stand without the other's.
TEST(Bundles, ThatShareAPatchAreOne) {
  const std::vector<SiteRequest> sites = {exit_of(1), exit_of(1), exit_of(2), exit_of(2)};
  BuiltPatches built;
  for (uint64_t address : {10, 20, 30}) built.patches.push_back(at(address));
  built.sites_at = {{{10}, 0}, {{20}, 1}, {{20}, 2}, {{30}, 3}};
  bundle(built, sites);
  EXPECT_EQ(built.patches[0].bundle, built.patches[1].bundle);
  EXPECT_EQ(built.patches[1].bundle, built.patches[2].bundle);
}

// Somebody else has changed the code of one: the other stays as it was, too.
TEST(Bundles, OfWhichOneCannotBeMadeAreNotMade) {
  Tally* tally = make_tally();
  Child child([&] { return run_threads(*tally, 1); });
  Surgeon surgeon(child.pid());
  AreaRequest request;
  request.pieces = {{PieceRequest::Use::code, 4096, {{uint64_t(&sample_twice)}, 4096}}};
  request.most_patches = 10;
  auto mapped = surgeon.map(request);
  ASSERT_TRUE(mapped) << why(mapped.error());
  std::vector<Patch> patches;
  for (ImageAddr code : {address_of(&sample_twice), address_of(&sample_loop)}) {
    Patch patch = at(code.value);
    std::memcpy(patch.original.data(), reinterpret_cast<const void*>(code.value), 5);
    patch.replacement = {0xe9, 0, 0, 0, 0};
    patch.bundle = {1};
    patches.push_back(patch);
  }
  std::ranges::sort(patches, {}, &Patch::address);
  patches[1].original[4] ^= 0xff;
  auto report = surgeon.install(patches);
  ASSERT_TRUE(report) << why(report.error());
  ASSERT_EQ(report->refused.size(), 2u);
  EXPECT_EQ(report->refused[0].reason, report->refused[1].reason);
  auto removed = surgeon.remove();
  ASSERT_TRUE(removed) << why(removed.error());
  EXPECT_EQ(removed->restored, 0u);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace uscope::engine::inproc
