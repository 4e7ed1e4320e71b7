// Quick answers against decode()'s, over all code of the machine's libraries and over bytes that are none.
#include "x86/quick_decode.h"

#include <gtest/gtest.h>

#include <random>

#include "unit/x86/elf_functions.h"

namespace uscope::x86 {
namespace {

using Quick = QuickInstruction::Kind;

// What quick_decode() must say of an instruction that decode() knows.
::testing::AssertionResult agrees(Bytes code, uint64_t address) {
  const auto known = decode(code, address);
  const QuickInstruction quick = quick_decode(code, address);
  auto differs = [&](const char* what) {
    auto failure = ::testing::AssertionFailure() << what << " at " << std::hex << address << ":";
    for (size_t i = 0; i < 15 && i < code.size(); ++i) failure << " " << unsigned(code[i]);
    return failure;
  };
  if (!known) return ::testing::AssertionSuccess();  // said to be one or not: never taken as a yes
  if (quick.kind == Quick::out_of_place) return ::testing::AssertionSuccess();
  if (quick.length != known->length) return differs("another length");
  if ((quick.kind == Quick::branch) != (known->relative_size != 0)) return differs("a branch or not");
  if ((quick.kind == Quick::points_to) != known->rip_relative) return differs("relative or not");
  if (known->relative_size != 0 && quick.target != known->target) return differs("another target");
  if (known->rip_relative && quick.target != known->memory_target) return differs("another place");
  return ::testing::AssertionSuccess();
}

void compare_all(const char* path, size_t every = 1) {
  auto elf = testing::ElfFile::open(path);
  if (!elf) GTEST_SKIP() << "no " << path;
  size_t instructions = 0, out_of_place = 0;
  for (size_t i = 0; i < elf->functions().size(); i += every) {
    const testing::ElfFunction& function = elf->functions()[i];
    const Bytes code = elf->read(function.address, function.size);
    for (Decoder decoder(code, function.address); auto instruction = decoder.next();) {
      const Bytes rest = code.subspan(instruction->address - function.address);
      ASSERT_TRUE(agrees(rest, instruction->address)) << function.name;
      ++instructions;
      out_of_place += quick_decode(rest, instruction->address).kind == Quick::out_of_place;
    }
  }
  EXPECT_GT(instructions, 100000u);
  // Only hand-written code has far jumps and the like.
  EXPECT_LT(out_of_place, instructions / 1000);
}

TEST(QuickDecode, AgreesOverLibc) { compare_all("/lib/x86_64-linux-gnu/libc.so.6"); }
TEST(QuickDecode, AgreesOverLibstdcxx) { compare_all("/lib/x86_64-linux-gnu/libstdc++.so.6"); }
TEST(QuickDecode, AgreesOverLibLlvm) { compare_all("/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", 16); }

TEST(QuickDecode, AgreesOnBytesThatNobodyWrote) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> code(64);
  for (int round = 0; round < 400000; ++round) {
    for (uint8_t& byte : code) byte = uint8_t(random());
    ASSERT_TRUE(agrees(code, 0x401000));
    // Short of bytes, too.
    ASSERT_TRUE(agrees(Bytes(code).first(1 + random() % 16), 0x401000));
  }
}

TEST(QuickDecode, FollowsBranchesAndPointers) {
  const std::vector<uint8_t> code = {0x74, 0x02,                                // je +2
                                     0x48, 0x8d, 0x05, 0x10, 0x00, 0x00, 0x00,  // lea 0x10(%rip), %rax
                                     0xe9, 0xf2, 0xff, 0xff, 0xff,              // jmp to the start
                                     0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                     0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
  std::vector<std::pair<uint64_t, uint64_t>> found;
  EXPECT_TRUE(quick_walk({0x1000, code}, [&](uint64_t address, const QuickInstruction& i) {
    if (i.target != 0) found.emplace_back(address, i.target);
    EXPECT_EQ(i.is_lea, address == 0x1002);
  }));
  EXPECT_EQ(found, (std::vector<std::pair<uint64_t, uint64_t>>{
                       {0x1000, 0x1004}, {0x1002, 0x1019}, {0x1009, 0x1000}}));
}

TEST(QuickDecode, SaysWhereDataIsAmongTheCode) {
  const std::vector<uint8_t> code = {0x90, 0xc3, 0x00, 0x00, 0x00, 0x00};
  EXPECT_FALSE(quick_walk({0x1000, code}, [](uint64_t, const QuickInstruction&) {}));
}

}  // namespace
}  // namespace uscope::x86
