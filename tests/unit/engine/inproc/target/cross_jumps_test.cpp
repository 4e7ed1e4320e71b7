// What leads into bytes to be patched: every kind of branch, wherever it stands.
#include "engine/inproc/target/cross_jumps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kBase = 0x10000;

// Code that is all nops but for a few bytes.
class Code {
 public:
  explicit Code(size_t size) : bytes_(size, 0x90) {}
  void put(uint64_t address, std::initializer_list<int> bytes) {
    for (int byte : bytes) bytes_[address++ - kBase] = uint8_t(byte);
  }
  void put_distance(uint64_t address, uint64_t end, uint64_t target) {
    const auto distance = uint32_t(target - end);
    for (unsigned i = 0; i < 4; ++i) bytes_[address - kBase + i] = uint8_t(distance >> (8 * i));
  }
  x86::CodeRange range() const { return {kBase, bytes_}; }

 private:
  std::vector<uint8_t> bytes_;
};

std::vector<uint64_t> sources(const std::vector<CrossJump>& jumps) {
  std::vector<uint64_t> from;
  for (const CrossJump& jump : jumps) from.push_back(jump.from);
  std::ranges::sort(from);
  return from;
}

Code with_all_branches(uint64_t target) {
  Code code(0x400);
  code.put(kBase + 0x10, {0xe9});
  code.put_distance(kBase + 0x11, kBase + 0x15, target);
  code.put(kBase + 0x20, {0xe8});
  code.put_distance(kBase + 0x21, kBase + 0x25, target);
  code.put(kBase + 0x30, {0x0f, 0x84});
  code.put_distance(kBase + 0x32, kBase + 0x36, target);
  code.put(target - 0x20, {0xeb, 0x1e});
  code.put(target + 0x20, {0x75, 0xde});
  code.put(target + 0x30, {0xe2, 0xce});  // loop
  code.put(kBase + 0x40, {0x48, 0x8d, 0x05});
  code.put_distance(kBase + 0x43, kBase + 0x47, target);
  return code;
}

TEST(CrossJumps, EveryKindIsFound) {
  const uint64_t target = kBase + 0x200;
  const Code code = with_all_branches(target);
  const std::vector<Interior> inside = {{target - 1, target + 3}};
  CrossJumpSearch search;
  search.text = {code.range()};
  search.is_branch = [&](uint64_t from, uint64_t to) {
    return leads_to(code.range(), from, to) != Leads::No;
  };
  const std::vector<uint64_t> expected = {kBase + 0x10,  kBase + 0x20,  kBase + 0x30, kBase + 0x41,
                                          target - 0x20, target + 0x20, target + 0x30};
  EXPECT_EQ(sources(find_cross_jumps(search, inside)), expected);
  // The walk tells instructions' starts: a lea's is its prefix.
  std::vector<uint64_t> starts = expected;
  starts[3] = kBase + 0x40;
  EXPECT_EQ(sources(find_all_jumps({{code.range()}, {{code.range(), false}}, {}}, inside)), starts);
  // In a function of its own the address taken is one more reason to look at all of it.
  EXPECT_EQ(find_all_jumps({{code.range()}, {{code.range(), true}}, {}}, inside).size(), starts.size() + 1);
}

TEST(CrossJumps, WhatOnlyLooksLikeABranchIsNone) {
  Code code(0x100);
  code.put(kBase + 0x10, {0xb8, 0xeb, 0x0d, 0x00, 0x00});  // mov $0xdeb, %eax: holds `jmp +13`
  EXPECT_EQ(leads_to(code.range(), kBase + 0x11, kBase + 0x20), Leads::No);
  code.put(kBase + 0x30, {0x3e, 0x75, 0xed});  // a prefix before jne
  EXPECT_EQ(leads_to(code.range(), kBase + 0x31, kBase + 0x20), Leads::Yes);
  EXPECT_EQ(leads_to(code.range(), kBase + 0x31, kBase + 0x21), Leads::No);
}

TEST(CrossJumps, AWalkThroughDataIsNotBelieved) {
  Code code(0x100);
  code.put(kBase + 0x04, {0x00, 0x00, 0x00, 0x00});
  code.put(kBase + 0x10, {0xb8, 0xeb, 0x0d, 0x00, 0x00});
  EXPECT_EQ(leads_to(code.range(), kBase + 0x11, kBase + 0x20), Leads::Maybe);
  // Byte by byte then, as a guess.
  const auto found = find_all_jumps({{code.range()}, {{code.range(), true}}, {}},
                                    std::vector<Interior>{{kBase + 0x20, kBase + 0x21}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_guess);
}

TEST(CrossJumps, CodeInNoPieceIsLookedAtToo) {
  const uint64_t target = kBase + 0x200;
  const Code code = with_all_branches(target);
  const x86::CodeRange middle{target - 0x10, code.range().bytes.subspan(0x1f0, 0x20)};
  const auto found =
      find_all_jumps({{code.range()}, {{middle, true}}, {}}, std::vector<Interior>{{target, target + 1}});
  EXPECT_EQ(found.size(), 7u);
}

TEST(CrossJumps, ALargeTextIsSearchedAroundThePlaces) {
  std::vector<uint8_t> bytes(size_t(20) << 20, 0x90);
  const uint64_t target = kBase + 0x100;
  auto put_jump = [&](uint64_t at) {
    bytes[at] = 0xe9;
    const auto distance = uint32_t(target - (kBase + at + 5));
    std::memcpy(&bytes[at + 1], &distance, sizeof distance);
  };
  put_jump(size_t(1) << 20);
  put_jump(size_t(19) << 20);
  CrossJumpSearch search;
  search.text = {{kBase, bytes}};
  search.is_branch = [](uint64_t, uint64_t) { return true; };
  const std::vector<Interior> inside = {{target, target + 4}};
  EXPECT_EQ(find_cross_jumps(search, inside).size(), 1u);
  EXPECT_EQ(find_all_jumps({search.text, {{search.text[0], true}}, {}}, inside).size(), 2u);
}

// Few addresses are searched for in another way than many.
TEST(CrossJumps, FewAddressesAreLedToByTheSameAsAmongMany) {
  constexpr size_t size = 0x30000;
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = uint8_t(random());
  const uint64_t target = kBase + 0x12345;
  for (size_t at = 0; at + 8 < size; at += 61 + random() % 50) {
    constexpr std::array<std::array<uint8_t, 2>, 4> kinds = {
        {{0, 0xe9}, {0, 0xe8}, {0x0f, 0x8c}, {0x8d, 0x0d}}};
    std::ranges::copy(kinds[random() % kinds.size()], &bytes[at]);
    const auto distance = uint32_t(target + random() % 12 - 4 - (kBase + at + 6));
    std::memcpy(&bytes[at + 2], &distance, sizeof distance);
  }
  CrossJumpSearch search;
  search.is_branch = [](uint64_t, uint64_t) { return true; };
  const Interior few{target, target + 4}, elsewhere{kBase + size - 8, kBase + size - 4};
  for (size_t cut = 0; cut < 40; ++cut) {  // blocks begin and end anywhere
    search.text = {{kBase + cut, Bytes(bytes).subspan(cut, size - 2 * cut)}};
    std::vector<uint64_t> expected;
    for (const CrossJump& jump : find_cross_jumps(search, std::vector{few, elsewhere}))
      if (jump.to >= few.begin && jump.to < few.end) expected.push_back(jump.from);
    std::ranges::sort(expected);
    ASSERT_GT(expected.size(), 500u);
    ASSERT_EQ(sources(find_cross_jumps(search, std::vector{few})), expected) << cut;
  }
}

}  // namespace
}  // namespace uscope::engine::inproc
