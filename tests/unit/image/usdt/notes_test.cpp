#include "image/usdt/notes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "image/elf/symbols.h"
#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

// "provider:name 0xaddress 0xsemaphore arguments" of every site.
std::multiset<std::string> ours(const std::vector<UsdtProbe>& probes) {
  std::multiset<std::string> result;
  for (const UsdtProbe& probe : probes) {
    for (const UsdtSite& site : probe.sites) {
      result.insert(fmt::format("{}:{} {:#018x} {:#018x} {}", probe.provider, probe.name, site.address.value,
                                site.semaphore.value_or(ImageAddr()).value, site.argument_text));
    }
  }
  return result;
}

std::multiset<std::string> readelf_probes(const std::string& path) {
  std::multiset<std::string> result;
  std::string provider, name, location, semaphore;
  auto after = [](const std::string& line, const std::string& key) {
    size_t at = line.find(key);
    std::string rest = line.substr(at + key.size());
    return rest.substr(0, rest.find(','));
  };
  for (const std::string& line : lines_of(output_of("readelf -n " + path))) {
    if (line.find("    Provider: ") == 0) provider = after(line, "Provider: ");
    if (line.find("    Name: ") == 0) name = after(line, "Name: ");
    if (line.find("    Location: ") == 0) {
      location = after(line, "Location: ");
      semaphore = after(line, "Semaphore: ");
    }
    if (line.find("    Arguments: ") == 0) {
      result.insert(provider + ":" + name + " " + location + " " + semaphore + " " +
                    line.substr(std::string("    Arguments: ").size()));
    }
  }
  return result;
}

TEST(UsdtNotes, OfTheMachinesLibrariesAreThoseOfReadelf) {
  for (std::string path : {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libstdc++.so.6",
                           "/lib64/ld-linux-x86-64.so.2"}) {
    ElfFile file = open_image(path);
    auto probes = read_usdt_probes(file);
    // Debian builds libstdc++ with probes, and libc without.
    if (path.find("libstdc++") != std::string::npos) {
      EXPECT_GE(probes.size(), 3u);
    }
    EXPECT_EQ(ours(probes), readelf_probes(path)) << path;
    for (const UsdtProbe& probe : probes) {
      for (const UsdtSite& site : probe.sites) {
        ASSERT_TRUE(site.offset) << probe.name;
        EXPECT_EQ(file.bytes()[site.offset->value], 0x90) << "a probe is a nop: " << probe.name;
        for (const UsdtArgument& argument : site.arguments) {
          EXPECT_NE(argument.operand.kind, UsdtOperand::Kind::Unknown) << argument.text;
        }
      }
    }
  }
}

constexpr std::string_view probed_program = R"(
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
unsigned short shop_sold_semaphore __attribute__((unused)) __attribute__((section(".probes")));
unsigned short shop_idle_semaphore __attribute__((unused)) __attribute__((section(".probes")));
long stock[4] = {1, 2, 3, 4};
__attribute__((noinline)) int sell(int item, long price, const char* to) {
  STAP_PROBE4(shop, sold, item, price, to, 42);
  return item + 1;
}
__attribute__((noinline)) void twice(void) { STAP_PROBE(shop, idle); sell(1, 2, "x"); STAP_PROBE(shop, idle); }
int main(int argc, char** argv) { twice(); return sell(argc, 7, argv[0]); }
)";

class UsdtProgram : public testing::Test {
 protected:
  void build(const std::string& flags) {
    output_of("gcc -O2 " + flags + " -o " + path_ + " " + scratch_.write("a.c", probed_program));
  }
  Scratch scratch_;
  std::string path_ = scratch_ / "a";
};

void expect_shop(const ElfFile& file, const std::vector<UsdtProbe>& probes) {
  ASSERT_EQ(probes.size(), 2u);
  EXPECT_EQ(probes[0].name, "idle");
  EXPECT_EQ(probes[0].sites.size(), 2u);
  EXPECT_TRUE(probes[0].sites[0].arguments.empty());
  const UsdtProbe& sold = probes[1];
  EXPECT_EQ(sold.provider, "shop");
  EXPECT_EQ(sold.name, "sold");
  ASSERT_GE(sold.sites.size(), 1u);
  const UsdtSite& site = sold.sites[0];
  ASSERT_TRUE(site.offset);
  EXPECT_EQ(file.bytes()[site.offset->value], 0x90);
  ASSERT_TRUE(site.semaphore && site.semaphore_offset);
  EXPECT_NE(site.semaphore, probes[0].sites[0].semaphore);
  ASSERT_EQ(site.arguments.size(), 4u);
  EXPECT_EQ(site.arguments[0].size, 4u);
  EXPECT_TRUE(site.arguments[0].is_signed);
  EXPECT_EQ(site.arguments[0].operand.kind, UsdtOperand::Kind::Register);
  EXPECT_EQ(site.arguments[0].operand.base, (UsdtRegister{5, 4}));
  EXPECT_EQ(site.arguments[1].operand.base, (UsdtRegister{4, 8}));
  EXPECT_FALSE(site.arguments[2].is_signed);
  EXPECT_EQ(site.arguments[3].operand.kind, UsdtOperand::Kind::Constant);
  EXPECT_EQ(site.arguments[3].operand.displacement, 42);
}

TEST_F(UsdtProgram, SitesArgumentsAndSemaphores) {
  for (std::string flags : {"-pie -fPIE", "-no-pie", "-static"}) {
    build(flags);
    ElfFile file = open_image(path_);
    auto probes = read_usdt_probes(file);
    std::erase_if(probes, [](const UsdtProbe& p) { return p.provider != "shop"; });
    SCOPED_TRACE(flags);
    expect_shop(file, probes);
    SymbolList data = read_data_symbols(file);
    auto symbol = std::ranges::find(data.symbols, "shop_sold_semaphore", &Symbol::name);
    ASSERT_NE(symbol, data.symbols.end());
    EXPECT_EQ(probes[1].sites[0].semaphore, symbol->address);
    EXPECT_EQ(probes[1].sites[0].semaphore_offset, file.to_file_offset(symbol->address));
  }
}

TEST_F(UsdtProgram, NotesAreFoundWithoutSectionHeaders) {
  build("");
  ElfFile whole = open_image(path_);
  std::string image = without_section_headers(read_all(path_));
  auto bare = ElfFile::from_bytes(as_bytes(image), "bare");
  ASSERT_TRUE(bare);
  auto probes = read_usdt_probes(*bare);
  expect_shop(*bare, probes);
  EXPECT_EQ(ours(probes), ours(read_usdt_probes(whole)));
}

TEST_F(UsdtProgram, PrelinkedAddressesAreCorrected) {
  build("-no-pie");
  std::string image = read_all(path_);
  ElfFile whole = open_image(path_);
  auto before = ours(read_usdt_probes(whole));
  // As prelink leaves it: the notes still speak of the old addresses, .stapsdt.base has moved.
  const Section& notes = *whole.find_section(".note.stapsdt");
  for (uint64_t at = notes.offset.value; at < notes.offset.value + notes.size;) {
    auto* header = reinterpret_cast<Elf64_Nhdr*>(image.data() + at);
    auto* words = reinterpret_cast<uint64_t*>(image.data() + at + sizeof *header + 8);
    words[0] -= 0x10000;
    words[1] -= 0x10000;
    if (words[2] != 0) words[2] -= 0x10000;
    at += sizeof *header + 8 + (header->n_descsz + 3) / 4 * 4;
  }
  auto moved = ElfFile::from_bytes(as_bytes(image), "moved");
  EXPECT_EQ(ours(read_usdt_probes(*moved)), before);
}

TEST(UsdtNotes, OperandsThatNameVariablesAreResolved) {
  Scratch scratch;
  output_of("gcc -O1 -no-pie -o " + (scratch / "a") + " " + scratch.write("a.c", R"(
#include <sys/sdt.h>
long stock[4];
int main(void) { STAP_PROBE1(shop, addressed, stock[2]); return 0; }
)"));
  ElfFile file = open_image(scratch / "a");
  auto probes = read_usdt_probes(file);
  auto probe = std::ranges::find(probes, "addressed", &UsdtProbe::name);
  ASSERT_NE(probe, probes.end());
  const UsdtOperand& operand = probe->sites[0].arguments.at(0).operand;
  SymbolList data = read_data_symbols(file);
  auto stock = std::ranges::find(data.symbols, "stock", &Symbol::name);
  EXPECT_EQ(operand.symbol, "stock") << probe->sites[0].argument_text;
  EXPECT_EQ(operand.displacement, 16);
  EXPECT_EQ(operand.symbol_address, stock->address);
}

UsdtArgument only(std::string_view text) {
  auto arguments = parse_usdt_arguments(text);
  EXPECT_EQ(arguments.size(), 1u) << text;
  return arguments.empty() ? UsdtArgument() : arguments[0];
}

TEST(UsdtOperand, EveryFormOfAnOperand) {
  using Kind = UsdtOperand::Kind;
  UsdtArgument a = only("-4@%edi");
  EXPECT_TRUE(a.is_signed);
  EXPECT_EQ(a.size, 4);
  EXPECT_EQ(a.operand.kind, Kind::Register);
  EXPECT_EQ(a.operand.base, (UsdtRegister{5, 4}));
  EXPECT_EQ(only("1@%ah").operand.base, (UsdtRegister{0, 1, true}));
  EXPECT_EQ(only("1@%sil").operand.base, (UsdtRegister{4, 1}));
  EXPECT_EQ(only("8@%r15").operand.base, (UsdtRegister{15, 8}));
  EXPECT_EQ(only("2@%r9w").operand.base, (UsdtRegister{9, 2}));
  EXPECT_EQ(only("%rdx").operand.base, (UsdtRegister{1, 8}));
  EXPECT_EQ(only("%ecx").size, 4);

  a = only("8f@%xmm3");
  EXPECT_TRUE(a.is_float);
  EXPECT_EQ(a.operand.base, (UsdtRegister{20, 16}));

  a = only("8@-8(%rbp)");
  EXPECT_EQ(a.operand.kind, Kind::Memory);
  EXPECT_EQ(a.operand.base, (UsdtRegister{6, 8}));
  EXPECT_EQ(a.operand.displacement, -8);

  EXPECT_EQ(only("4@$5").operand.displacement, 5);
  EXPECT_EQ(only("-4@$-1").operand.displacement, -1);
  EXPECT_EQ(only("8@$0x7fffffffffffffff").operand.displacement, INT64_MAX);
  EXPECT_EQ(only("8@$18446744073709551615").operand.displacement, -1);

  a = only("8@foo(%rip)");
  EXPECT_EQ(a.operand.kind, Kind::Memory);
  EXPECT_EQ(a.operand.symbol, "foo");
  EXPECT_FALSE(a.operand.base);
  EXPECT_EQ(only("8@foo+16(%rip)").operand.displacement, 16);
  EXPECT_EQ(only("8@8+foo.bar(%rip)").operand.symbol, "foo.bar");
  EXPECT_EQ(only("8@-4+foo(%rip)").operand.displacement, -4);

  a = only("8@(%rax,%rbx,8)");
  EXPECT_EQ(a.operand.base, (UsdtRegister{0, 8}));
  EXPECT_EQ(a.operand.index, (UsdtRegister{3, 8}));
  EXPECT_EQ(a.operand.scale, 8);
  a = only("4@foo(,%rcx,4)");
  EXPECT_FALSE(a.operand.base);
  EXPECT_EQ(a.operand.index, (UsdtRegister{2, 8}));
  EXPECT_EQ(a.operand.symbol, "foo");
  EXPECT_EQ(only("8@%fs:-16").operand.segment, 'f');
  EXPECT_EQ(only("8@%fs:0x28").operand.displacement, 0x28);
}

TEST(UsdtOperand, WhatIsNotUnderstoodSaysSoAndKeepsItsText) {
  for (std::string_view text :
       {"8@%bogus", "8@", "3@%eax", "16@%xmm0", "8@16(%rip)", "8@(%rax", "8@(%rax,%rbx,3)", "8@foo-bar(%rip)",
        "8@QWORD PTR [rbp-8]", "8@foo@GOTPCREL(%rip)", "8@%rip", "8@$", "@",
        "8@99999999999999999999(%rax)"}) {
    UsdtArgument argument = only(text);
    EXPECT_EQ(argument.operand.kind, UsdtOperand::Kind::Unknown) << text;
    EXPECT_EQ(argument.text, text);
  }
}

TEST(UsdtOperand, Lists) {
  EXPECT_TRUE(parse_usdt_arguments("").empty());
  EXPECT_TRUE(parse_usdt_arguments("   ").empty());
  auto list = parse_usdt_arguments("-4@%edi 8@-8(%rbp)  4@$5 8@DWORD PTR [rax] 8@(%rax)");
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[2].text, "4@$5");
  EXPECT_EQ(list[3].text, "8@DWORD PTR [rax]");
  EXPECT_EQ(list[4].operand.kind, UsdtOperand::Kind::Memory);
  EXPECT_EQ(parse_usdt_arguments("%rdi %rsi").size(), 2u);
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "8@%rax ";
  EXPECT_LE(parse_usdt_arguments(many).size(), 64u);
}

}  // namespace
}  // namespace uscope::image
