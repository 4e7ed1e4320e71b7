// Reading the target's memory: what is certain to be mapped is loaded, for the rest the kernel is asked, and
// either way a bad pointer gives nothing.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "engine/inproc/runtime/hash_map.h"
#include "engine/inproc/target/known_memory.h"
#include "unit/engine/inproc/emulated_gate.h"
#include "unit/engine/inproc/traced.h"

asm(R"(
.pushsection .text
.globl uscope_test_gate_load, uscope_test_gate_landing
uscope_test_gate_load: mov (%rsi), %rax
  ret
uscope_test_gate_landing: ret
.popsection
)");

namespace uscope::engine::inproc {
namespace {

[[gnu::noinline, gnu::noipa]] uint64_t take(const void* text, uint64_t number) {
  asm volatile("nop; nop; nop; nop; nop; nop");
  return uint64_t(text) + number;
}

// What str(arg0) was when arg1 was `number`.
struct Texts {
  explicit Texts(const std::string& script, bool has_gate = false) : traced(script) {
    if (has_gate) traced.process.set_load_gate(gate.emplace().address());
    traced.process.patch_entry(reinterpret_cast<void*>(&take), {});
  }
  std::string of(uint64_t number) const {
    Bytes key(reinterpret_cast<const uint8_t*>(&number), sizeof number);
    auto entry = traced.store.find_entry(traced.map_of("@s"), key);
    if (!entry || !*entry) return "no entry";
    const auto& value = (*entry)->values[0];
    return std::string(value.begin(), std::ranges::find(value, 0));
  }
  std::optional<EmulatedGate> gate;
  Traced traced;
};

// Where the kernel reads for us, and where it lets a load fail.
class ReadingEitherWay : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Reading, ReadingEitherWay, testing::Values(false, true),
                         [](const auto& way) { return way.param ? "ThroughTheGate" : "ByTheKernel"; });

constexpr const char* kText = "uprobe:/a:f { @s[arg1] = str(arg0, 200); }";

// The session refuses such scripts; should one come here all the same, the program must not pay for it.
TEST(Reading, AnAddressOfTheKernelsIsNone) {
  Traced traced("uprobe:/a:f { @n[arg1] = *kptr((uint64*)arg0); @s[arg1] = str(kptr((uint8*)arg0)); }");
  traced.process.patch_entry(reinterpret_cast<void*>(&take), {});
  const uint64_t here = 5;
  for (uint64_t bad : {uint64_t(0), uint64_t(12345678), uint64_t(&here), uint64_t(0xffffffff81000000),
                       uint64_t(0x8000000000000000), ~uint64_t(0)})
    take(reinterpret_cast<void*>(bad), bad);
  EXPECT_EQ(traced.total("@n", 12345678), 0u);
  EXPECT_EQ(traced.total("@n", uint64_t(&here)), 0u);
  // Values of maps are read by the same call.
  Traced copies("uprobe:/a:f { @s = \"text\"; $t = @s; if ($t == \"text\") { @same = count(); } }");
  copies.process.patch_entry(reinterpret_cast<void*>(&take), {});
  take(nullptr, 0);
  EXPECT_EQ(copies.total("@same"), 1u);
}

TEST_P(ReadingEitherWay, TakesTextsFromEverywhere) {
  Texts texts(kText, GetParam());
  static const char kConstant[] = "a constant";
  char on_stack[3 * 4096] = "at the near end";
  std::strcpy(on_stack + 2 * 4096, "some pages up");
  const std::string on_heap = "on the heap, and longer than the words it is read by";
  take(kConstant, 1);
  take(on_stack, 2);
  take(on_stack + 2 * 4096, 3);
  take(on_heap.c_str(), 4);
  std::thread([&] {
    char own[2 * 4096] = "a thread's own";
    std::strcpy(own + 4096, "and further up");
    take(own, 5);
    take(own + 4096, 6);
    take(on_stack, 7);
  }).join();
  EXPECT_EQ(texts.of(1), kConstant);
  EXPECT_EQ(texts.of(2), "at the near end");
  EXPECT_EQ(texts.of(3), "some pages up");
  EXPECT_EQ(texts.of(4), on_heap);
  EXPECT_EQ(texts.of(5), "a thread's own");
  EXPECT_EQ(texts.of(6), "and further up");
  EXPECT_EQ(texts.of(7), "at the near end");
}

TEST_P(ReadingEitherWay, OfEveryLengthAndPlace) {
  Texts texts(kText, GetParam());
  char text[600];
  static char pages[2 * 4096];
  for (size_t length = 0; length < 300; length++) {
    const size_t shift = length % 13;
    for (char* buffer : {text + shift, pages + 4096 - length / 2}) {
      std::memset(buffer, 'x', length);
      std::memcpy(buffer + length, "\0behind", 8);
      take(buffer, length);
      ASSERT_EQ(texts.of(length), std::string(std::min<size_t>(length, 199), 'x'));
    }
  }
}

TEST_P(ReadingEitherWay, GivesNothingForBadPointers) {
  Texts texts(kText, GetParam());
  auto* page =
      static_cast<char*>(mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(page, MAP_FAILED);
  mprotect(page + 4096, 4096, PROT_NONE);
  std::memset(page, 'x', 4096);
  std::strcpy(page + 4096 - 6, "whole");
  take(page + 4096 - 6, 1);
  std::memset(page, 'x', 4096);
  take(page + 4096 - 6, 2);  // runs out of the page
  take(page + 4096, 3);
  munmap(page, 2 * 4096);
  uint64_t number = 4;
  for (uint64_t bad : {uint64_t(page), uint64_t(0), uint64_t(1), uint64_t(4095), uint64_t(4096), ~uint64_t(0),
                       uint64_t(-8), uint64_t(1) << 47, uint64_t(0x8000) << 48, (uint64_t(1) << 47) - 3})
    take(reinterpret_cast<void*>(bad), number++);
  EXPECT_EQ(texts.of(1), "whole");
  for (uint64_t i = 2; i < number; i++) EXPECT_EQ(texts.of(i), "") << i;
}

TEST_P(ReadingEitherWay, NumbersAndWholeStructs) {
  Traced traced(
      "struct s { uint64 a[5]; uint8 b; } uprobe:/a:f { @n[arg1] = *(uint64*)arg0; "
      "@m[arg1] = *(uint16*)(arg0 + 3); $s = *(struct s*)arg0; @k[arg1] = $s.a[4]; @j[arg1] = $s.b; }");
  std::optional<EmulatedGate> gate;
  if (GetParam()) traced.process.set_load_gate(gate.emplace().address());
  traced.process.patch_entry(reinterpret_cast<void*>(&take), {});
  auto* page = static_cast<uint8_t*>(
      mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(page, MAP_FAILED);
  for (int i = 0; i < 4096; i++) page[i] = uint8_t(i * 7);
  munmap(page + 4096, 4096);
  for (uint64_t at = 4096 - 64; at < 4096; at++) take(page + at, at);
  auto bytes_at = [&](uint64_t at, uint64_t size) {
    uint64_t value = 0;
    if (at + size <= 4096) std::memcpy(&value, page + at, size);
    return value;
  };
  for (uint64_t at = 4096 - 64; at < 4096; at++) {
    EXPECT_EQ(traced.total("@n", at), bytes_at(at, 8)) << at;
    EXPECT_EQ(traced.total("@m", at), bytes_at(at + 3, 2)) << at;
    const bool is_whole = at + 48 <= 4096;
    EXPECT_EQ(traced.total("@k", at), is_whole ? bytes_at(at + 32, 8) : 0) << at;
    EXPECT_EQ(traced.total("@j", at), is_whole ? bytes_at(at + 40, 1) : 0) << at;
  }
  munmap(page, 4096);
}

// The kernel makes the first thread's stack grow for whoever touches what is below it.
TEST(Reading, NeverMakesTheStackGrow) {
  const KnownMemory before = find_known_memory(getpid());
  Texts texts(kText, true);
  const uint64_t faults = EmulatedGate::faults;
  for (uint64_t below = 4096; below < 512 * 1024; below += 4096)
    take(reinterpret_cast<void*>(before.first_stack.begin.value - below), below);
  EXPECT_EQ(EmulatedGate::faults, faults);
  EXPECT_EQ(texts.of(8192), "");
  EXPECT_EQ(find_known_memory(getpid()).first_stack.begin, before.first_stack.begin);
  EXPECT_GT(before.first_stack.begin.value, before.may_grow.begin.value);
}

// A stack without C library's structure on top, and one that ends right behind what is asked for.
TEST_P(ReadingEitherWay, FromAStackOfTheProgramsOwn) {
  Texts texts(kText, GetParam());
  constexpr size_t kStack = 64 * 4096, kBehind = 4 * 4096;
  auto* stack = static_cast<char*>(
      mmap(nullptr, kStack + kBehind, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(stack, MAP_FAILED);
  char* top = stack + kStack - 64;
  mprotect(stack + kStack, kBehind, PROT_NONE);
  std::memset(top, 'x', 64);
  asm volatile(
      "mov %%rsp, %%rbx\n mov %[top], %%rsp\n mov %[top], %%rdi\n mov $1, %%esi\n call *%[take]\n"
      "mov %[top], %%rdi\n add $8192, %%rdi\n mov $2, %%esi\n call *%[take]\n mov %%rbx, %%rsp"
      :
      : [top] "r"(top), [take] "r"(&take)
      : "rbx", "rax", "rdi", "rsi", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory");
  EXPECT_EQ(texts.of(1), "");
  EXPECT_EQ(texts.of(2), "");
  munmap(stack, kStack + kBehind);
}

// The first lookup knows the text's length, the second finds out for itself how far the key is not zero.
TEST(Reading, TellsLongKeysApart) {
  for (size_t most : {100, 1000, 1001, 1007}) {
    Traced traced("uprobe:/a:f { @[str(arg0, " + std::to_string(most) + ")] = sum(arg1); $text = str(arg0, " +
                  std::to_string(most) + "); @[$text] = sum(arg1); }");
    traced.process.patch_entry(reinterpret_cast<void*>(&take), {});
    for (int round = 0; round < 2; round++)
      for (size_t length = 0; length < most; length++) take(std::string(length, 'x').c_str(), length + 1);
    const uint32_t map = traced.map_of("@");
    EXPECT_GT(traced.process.map(map)->key_size, kLongKey);
    for (size_t length = 0; length < most; length++) {
      std::vector<uint8_t> key(traced.process.map(map)->key_size);
      std::memset(key.data(), 'x', length);
      auto entry = traced.store.find_entry(map, key);
      ASSERT_TRUE(entry && *entry) << length << " of " << most;
      uint64_t sum = 0;
      for (const auto& value : (*entry)->values) sum += ByteReader(value).u64();
      ASSERT_EQ(sum, 4 * (length + 1)) << length << " of " << most;
    }
  }
}

TEST(KnownMemory, IsTheExecutablesOwnAndTheFirstStack) {
  constexpr const char* kMaps =
      "55d000000000-55d000001000 r--p 00000000 08:01 11 /bin/app\n"
      "55d000001000-55d000009000 r-xp 00001000 08:01 11 /bin/app\n"
      "55d000009000-55d00000a000 r--p 00009000 08:01 11 /bin/app\n"
      "55d00000a000-55d00000b000 rw-p 0000a000 08:01 11 /bin/app\n"
      "55d00000c000-55d00000d000 r--p 0000c000 08:01 11 /bin/app\n"
      "55d000020000-55d000041000 rw-p 00000000 00:00 0 [heap]\n"
      "7f0000000000-7f0000001000 r--s 00000000 08:01 11 /bin/app\n"
      "7f0000010000-7f0000011000 r-xp 00000000 08:01 12 /lib/libc.so.6\n"
      "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]\n";
  const process::Maps maps = process::Maps::parse(kMaps).value();
  const KnownMemory known = known_memory_in(maps, "/bin/app", 0xc800);
  ASSERT_EQ(known.constant.size(), 2u);
  EXPECT_EQ(known.constant[0].begin.value, 0x55d000000000u);
  EXPECT_EQ(known.constant[0].end.value, 0x55d00000a000u);
  EXPECT_EQ(known.constant[1].begin.value, 0x55d00000c000u);
  EXPECT_EQ(known.constant[1].end.value, 0x55d00000c800u) << "the file is no longer";
  EXPECT_EQ(known.first_stack.begin.value, 0x7ffe00000000u);
  EXPECT_EQ(known.first_stack.end.value, 0x7ffe00021000u);
  EXPECT_EQ(known.may_grow.begin.value, 0x7f0000011000u) << "down to what is mapped below it";
  EXPECT_EQ(known.may_grow.end.value, 0x7ffe00021000u);
  EXPECT_TRUE(known_memory_in(maps, "", 0xc800).constant.empty());
  EXPECT_TRUE(known_memory_in(maps, "/bin/other", 0xc800).constant.empty());
}

TEST(KnownMemory, OfThisProcessHoldsItsConstantsAndItsStack) {
  static const char kConstant[] = "of the executable's";
  static char variable[16];
  char on_stack = 0;
  const KnownMemory known = find_known_memory(getpid());
  auto holds = [](const KnownMemory::Range& range, const void* address) {
    return uint64_t(address) >= range.begin.value && uint64_t(address) < range.end.value;
  };
  auto is_constant = [&](const void* address) {
    return std::ranges::any_of(known.constant, [&](const auto& range) { return holds(range, address); });
  };
  EXPECT_TRUE(is_constant(kConstant));
  EXPECT_FALSE(is_constant(variable));
  EXPECT_TRUE(holds(known.first_stack, &on_stack));
}

}  // namespace
}  // namespace uscope::engine::inproc
