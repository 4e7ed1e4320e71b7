// Landing pads and unwind entries: of a compiled program, of the machine's libstdc++ against a second reader,
// and of tables that lie.
#include "image/exceptions/landing_pads.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "image/elf/symbols.h"
#include "unit/image/elf/programs.h"
#include "unit/x86/elf_functions.h"

namespace uscope::image {
namespace {

constexpr std::string_view throwing_program = R"(
#include <cstdio>
#include <stdexcept>
#include <string>
__attribute__((noinline)) int thrower(int x) { if (x > 2) throw std::runtime_error("big"); return x; }
struct Noisy { ~Noisy() { std::puts("gone"); } };
extern "C" __attribute__((noinline)) int catches(int x) {
  Noisy noisy;
  try { return thrower(x) + 1; } catch (const std::exception& e) { return -int(std::string(e.what()).size()); }
}
extern "C" __attribute__((noinline)) int quiet(int x) { return x + 1; }
int main(int argc, char**) { return catches(argc) + quiet(argc); }
)";

ElfFile throwing_image(const Scratch& scratch, const std::string& flags) {
  std::string source = scratch.write("a.cc", throwing_program);
  output_of("g++ " + flags + " " + source + " -o " + (scratch / "a.out"));
  return open_image(scratch / "a.out");
}

const Symbol& symbol_of(const SymbolList& list, std::string_view name) {
  auto found = std::ranges::find(list.symbols, name, &Symbol::name);
  if (found == list.symbols.end()) ADD_FAILURE() << "no " << name;
  return *found;
}

TEST(LandingPads, AreWhereAFunctionCatches) {
  for (const char* flags : {"-O0", "-O2", "-O2 -static", "-O2 -no-pie -fno-pic"}) {
    Scratch scratch;
    ElfFile file = throwing_image(scratch, flags);
    SymbolList symbols = read_function_symbols(file);
    const Symbol& catches = symbol_of(symbols, "catches");
    UnwindEntries entries(file);
    auto entry = entries.at(catches.address.value + 3);
    ASSERT_TRUE(entry) << flags;
    EXPECT_EQ(entry->begin, catches.address.value);
    EXPECT_EQ(entry->end, catches.address.value + catches.size);
    EXPECT_FALSE(entry->begins_inside_frame);
    LandingPads pads = read_landing_pads(file, *entry);
    EXPECT_TRUE(pads.is_complete);
    EXPECT_GE(pads.addresses.size(), 1u) << flags;
    for (uint64_t pad : pads.addresses) EXPECT_TRUE(file.is_executable(ImageAddr{pad}));
    auto quiet = entries.at(symbol_of(symbols, "quiet").address.value);
    ASSERT_TRUE(quiet);
    EXPECT_FALSE(quiet->lsda);
    EXPECT_TRUE(read_landing_pads(file, *quiet).addresses.empty());
  }
}

// The call of thrower() lands, and so does the load where faults may throw; what only adds lies in no range.
TEST(LandingPads, AreLandedInFromSomePlaces) {
  Scratch scratch;
  std::string source = scratch.write("b.cc", R"(
int thrower();
extern "C" int calls() { try { return thrower() + 1; } catch (...) { return -1; } }
extern "C" int loads(int* p) { try { return *p; } catch (...) { return -1; } }
int thrower() { throw 1; }
int main(int argc, char**) { return calls() + loads(&argc); })");
  output_of("g++ -O1 -fno-inline -fnon-call-exceptions " + source + " -o " + (scratch / "b.out"));
  ElfFile file = open_image(scratch / "b.out");
  SymbolList symbols = read_function_symbols(file);
  auto landing = [&](std::string_view name) {
    const Symbol& function = symbol_of(symbols, name);
    const auto entry = UnwindEntries(file).at(function.address.value);
    size_t count = 0;
    for (uint64_t at = 0; entry && at < function.size; ++at)
      count += lands_from(file, *entry, function.address.value + at) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(landing("calls"), 5u);  // a call's bytes
  EXPECT_EQ(landing("loads"), 2u);  // mov (%rdi),%eax
  EXPECT_EQ(landing("main"), 0u);
}

TEST(LandingPads, AColdPartBeginsInsideItsFrame) {
  Scratch scratch;
  ElfFile file = throwing_image(scratch, "-O2");
  SymbolList symbols = read_function_symbols(file);
  const Symbol& part = symbol_of(symbols, "catches.cold");
  auto entry = UnwindEntries(file).at(part.address.value);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->begin, part.address.value);
  EXPECT_TRUE(entry->begins_inside_frame);
}

TEST(LandingPads, NeedNoSectionHeaders) {
  Scratch scratch;
  throwing_image(scratch, "-O2");
  std::string bytes = read_all(scratch / "a.out");
  ElfFile whole = open_image(scratch / "a.out");
  SymbolList symbols = read_function_symbols(whole);
  uint64_t address = symbol_of(symbols, "catches").address.value;
  auto file = ElfFile::from_bytes(as_bytes(bytes = without_section_headers(bytes)), "no headers");
  ASSERT_TRUE(file);
  auto expected = UnwindEntries(whole).at(address), entry = UnwindEntries(*file).at(address);
  ASSERT_TRUE(expected && entry);
  EXPECT_EQ(entry->lsda, expected->lsda);
  EXPECT_EQ(read_landing_pads(*file, *entry).addresses, read_landing_pads(whole, *expected).addresses);
}

// Without .eh_frame_hdr, the entries are found by reading them all.
TEST(LandingPads, NeedNoSearchTable) {
  Scratch scratch;
  ElfFile file = throwing_image(scratch, "-O2 -Wl,--no-eh-frame-hdr");
  SymbolList symbols = read_function_symbols(file);
  const Symbol& catches = symbol_of(symbols, "catches");
  auto entry = UnwindEntries(file).at(catches.address.value);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->begin, catches.address.value);
  EXPECT_TRUE(entry->lsda);
}

TEST(LandingPads, OfLibstdcxxAgreeWithASecondReader) {
  const char* path = "/lib/x86_64-linux-gnu/libstdc++.so.6";
  auto expected = x86::testing::ElfFile::open(path);
  if (!expected) GTEST_SKIP() << "no " << path;
  ElfFile file = open_image(path);
  UnwindEntries entries(file);
  size_t functions = 0;
  for (auto [begin, pads] : expected->landing_pads()) {
    auto entry = entries.at(begin);
    ASSERT_TRUE(entry) << begin;
    LandingPads found = read_landing_pads(file, *entry);
    EXPECT_TRUE(found.is_complete) << begin;
    std::ranges::sort(pads);
    pads.erase(std::unique(pads.begin(), pads.end()), pads.end());
    EXPECT_EQ(found.addresses, pads) << begin;
    ++functions;
  }
  EXPECT_GT(functions, 500u);
}

// An image of one segment at its own offsets, so that an address is an offset.
struct Flat {
  std::string bytes;
  explicit Flat(std::string_view table) {
    bytes = elf_header();
    Elf64_Phdr load{};
    load.p_type = PT_LOAD;
    load.p_flags = PF_R;
    load.p_filesz = load.p_memsz = sizeof(Elf64_Ehdr) + sizeof load + table.size();
    auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
    header->e_phoff = sizeof(Elf64_Ehdr);
    header->e_phnum = 1;
    bytes.append(reinterpret_cast<const char*>(&load), sizeof load);
    bytes += table;
  }
  LandingPads read(uint64_t code_size = 0x100) const {
    auto file = ElfFile::from_bytes(as_bytes(bytes), "flat");
    UnwindEntry entry{
        .begin = 0x4000, .end = 0x4000 + code_size, .lsda = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)};
    return file ? read_landing_pads(*file, entry) : LandingPads{{}, false};
  }
};

TEST(LandingPads, AreReadByHand) {
  // No own start, no types, call sites as uleb128: [0, 5) -> pad 0x10; [5, 6) -> none; [6, 9) -> pad 0x10.
  using namespace std::string_view_literals;
  LandingPads pads = Flat("\xff\xff\x01\x0c\x00\x05\x10\x00\x05\x01\x00\x00\x06\x03\x10\x01"sv).read();
  EXPECT_TRUE(pads.is_complete);
  EXPECT_EQ(pads.addresses, std::vector<uint64_t>{0x4010});
  // Pads relative to a start of their own (udata4).
  pads = Flat("\x03\x00\x90\x00\x00\xff\x01\x04\x00\x05\x10\x00"sv).read();
  EXPECT_EQ(pads.addresses, std::vector<uint64_t>{0x9010});
}

TEST(LandingPads, ATableThatLiesIsSaidToBeIncomplete) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(Flat("\xff\xff\x01\x7f\x00\x05\x10\x00"sv).read().is_complete);         // longer than the file
  EXPECT_FALSE(Flat("\xff\xff\x01\x03\x00\x05\x10\x00"sv).read().is_complete);         // ends in a row
  EXPECT_FALSE(Flat("\xff\xff\x07\x04\x00\x05\x10\x00"sv).read().is_complete);         // unknown encoding
  EXPECT_FALSE(Flat("\x07\xff\x01\x04\x00\x05\x10\x00"sv).read().is_complete);         // of the start
  EXPECT_FALSE(Flat("\xff"sv).read().is_complete);                                     // cut off
  EXPECT_FALSE(Flat("\xff\xff\x01\x40" + std::string(64, '\1')).read(2).is_complete);  // larger than its code
}

}  // namespace
}  // namespace uscope::image
