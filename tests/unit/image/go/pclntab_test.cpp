#include "image/go/pclntab.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "image/elf/symbols.h"
#include "image/go/build_info.h"
#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

ElfFile fixture(const std::string& name) {
  std::string packed = read_all(std::string(USCOPE_FIXTURES) + "/go/" + name + ".xz");
  auto unpacked = decompress_xz(as_bytes(packed), uint64_t(64) << 20);
  EXPECT_TRUE(unpacked) << name;
  auto file = ElfFile::from_buffer(std::move(*unpacked), name);
  EXPECT_TRUE(file) << name;
  return std::move(*file);
}

Pclntab table_of(const ElfFile& file) {
  auto table = Pclntab::find(file);
  EXPECT_TRUE(table && *table) << file.path() << ": " << (table ? "no table" : table.error().message());
  return std::move(**table);
}

// The symbol table spells what the pclntab leaves out: the ABI of assembly functions, type arguments and
// array lengths.
// And Go's linker writes its middle dot as a plain one there.
std::string without_details(std::string_view name) {
  std::string result;
  if (name.ends_with(".abi0")) name.remove_suffix(5);
  int depth = 0;
  for (char c : name) {
    if (c == '\xc2') continue;
    if (c == '\xb7') c = '.';
    if (c == '[' && depth++ == 0) result += "[...]";
    if (depth == 0) result += c;
    if (c == ']') --depth;
  }
  return result;
}

struct Build {
  std::string name;
  PclntabFormat format;
  size_t functions, inlined, lines;
};

void PrintTo(const Build& build, std::ostream* stream) { *stream << build.name; }

class GoFixture : public testing::TestWithParam<Build> {};

TEST_P(GoFixture, HasItsFunctionsLinesAndInlinedCalls) {
  ElfFile file = fixture(GetParam().name);
  Pclntab table = table_of(file);
  EXPECT_EQ(table.format(), GetParam().format);
  EXPECT_TRUE(table.problems().empty());
  EXPECT_EQ(table.functions().size(), GetParam().functions);
  size_t inlined = 0, lines = 0;
  for (const GoFunction& function : table.functions()) {
    for (std::string_view data :
         {".stkobj", "..inittask", "go.buildid", "go:buildid", "runtime.text", "runtime.etext"}) {
      EXPECT_FALSE(function.name.ends_with(data)) << function.name;
    }
    EXPECT_EQ(function.name.find("textfips"), std::string_view::npos) << function.name;
    EXPECT_TRUE(file.is_executable(function.entry)) << function.name;
    for (const GoInlinedCall& call : table.inlined_calls(function)) {
      ++inlined;
      EXPECT_FALSE(call.function.empty());
      EXPECT_FALSE(call.call_file.empty()) << call.function << " in " << function.name;
      EXPECT_FALSE(call.ranges.empty());
    }
    uint64_t covered = 0;
    for (const GoLine& line : table.lines(function)) {
      ++lines;
      EXPECT_EQ(line.begin, function.entry + covered) << function.name;
      covered += line.size;
    }
    EXPECT_EQ(covered, function.size) << function.name;
  }
  EXPECT_EQ(inlined, GetParam().inlined);
  EXPECT_EQ(lines, GetParam().lines);
}

TEST_P(GoFixture, SaysItsVersion) {
  ElfFile file = fixture(GetParam().name);
  auto info = read_go_build_info(file);
  ASSERT_TRUE(info);
  std::string version = GetParam().name.substr(0, GetParam().name.find('-'));
  EXPECT_TRUE(info->version.starts_with(version + ".")) << info->version;
  EXPECT_EQ(info->minor_version(), std::stoi(version.substr(4)));
  EXPECT_EQ(info->path, "fixture");
  EXPECT_EQ(info->module, "fixture");
}

constexpr auto go116 = PclntabFormat::Go1_16, go118 = PclntabFormat::Go1_18, go120 = PclntabFormat::Go1_20;
INSTANTIATE_TEST_SUITE_P(Builds, GoFixture,
                         testing::Values(Build{"go1.16-stripped", go116, 1552, 3961, 39559},
                                         Build{"go1.17-stripped", go116, 1462, 3885, 38135},
                                         Build{"go1.18-stripped", go118, 1482, 3983, 38333},
                                         Build{"go1.20-stripped", go120, 1551, 4801, 39924},
                                         Build{"go1.21-stripped", go120, 1587, 5095, 40354},
                                         Build{"go1.22-stripped", go120, 1646, 5596, 42274},
                                         Build{"go1.23-stripped", go120, 1855, 6186, 46557},
                                         Build{"go1.24-stripped", go120, 1887, 6393, 47838},
                                         Build{"go1.25-stripped", go120, 1956, 6766, 50065},
                                         Build{"go1.26-stripped", go120, 2044, 7242, 51847},
                                         Build{"go1.26-noheaders", go120, 2044, 7242, 51847}),
                         [](const auto& built) { return fmt::format("_{}", built.index); });

// Same addresses and sizes as the symbol table says, and the same names but for what the pclntab abbreviates.
void expect_as_symbols(const ElfFile& file) {
  Pclntab table = table_of(file);
  SymbolList list = read_function_symbols(file);
  std::map<uint64_t, const Symbol*> symbols;
  for (const Symbol& symbol : list.symbols) symbols.emplace(symbol.address.value, &symbol);
  size_t in_both = 0;
  for (const GoFunction& function : table.functions()) {
    auto found = symbols.find(function.entry.value);
    ASSERT_NE(found, symbols.end()) << function.name;
    EXPECT_EQ(function.size, found->second->size) << function.name;
    EXPECT_EQ(without_details(function.name), without_details(found->second->name));
    ++in_both;
  }
  EXPECT_EQ(in_both, table.functions().size());
  // What C objects an external linker added is not Go's.
  for (const auto& [address, symbol] : symbols) {
    if (symbol->name.find('.') == std::string_view::npos || symbol->name.starts_with("__") ||
        symbol->is_cold_part)
      continue;
    EXPECT_NE(table.function_at({address}), nullptr) << symbol->name;
  }
}

TEST(Pclntab, AgreesWithTheSymbolTable) {
  for (std::string name : {"go1.16-dwarf", "go1.26-dwarf", "go1.26-noopt", "go1.26-pie"}) {
    SCOPED_TRACE(name);
    ElfFile file = fixture(name);
    expect_as_symbols(file);
    EXPECT_EQ(read_function_symbols(file).symbols.size(), table_of(file).functions().size())
        << "no symbol is left over in an image that Go linked alone";
  }
}

TEST(Pclntab, StrippedAndWholeTwinsSayTheSame) {
  for (std::string version : {"go1.16", "go1.26"}) {
    ElfFile whole = fixture(version + "-dwarf"), stripped = fixture(version + "-stripped");
    Pclntab a = table_of(whole), b = table_of(stripped);
    ASSERT_EQ(a.functions().size(), b.functions().size());
    for (size_t i = 0; i < a.functions().size(); ++i) {
      EXPECT_EQ(a.functions()[i].name, b.functions()[i].name);
      EXPECT_EQ(a.functions()[i].entry, b.functions()[i].entry);
    }
  }
}

TEST(Pclntab, ImagesOfOtherLanguagesHaveNone) {
  ElfFile file = open_image("/lib/x86_64-linux-gnu/libc.so.6");
  auto table = Pclntab::find(file);
  ASSERT_TRUE(table);
  EXPECT_FALSE(*table);
  EXPECT_FALSE(read_go_build_info(file));
}

constexpr std::string_view go_program = R"(package main

//go:noinline
func sink(x int) { println(x) }

func tripled(x int) int { sink(x); return x * 3 }

func outer(x int) int {
	return tripled(x) + 1
}

//go:noinline
func caller(x int) int {
	return outer(x) +
		7
}

func main() { println(caller(2)) }
)";

// Builds with the machine's Go, if it has one.
class GoProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (::system("go version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no Go on this machine";
  }
  ElfFile build(const std::string& flags) {
    std::string source = scratch_.write("main.go", go_program);
    output_of("cd " + scratch_.path() + " && GOFLAGS=-mod=mod GO111MODULE=off go build -o " + path_ + " " +
              flags + " main.go");
    return open_image(path_);
  }
  Scratch scratch_;
  std::string path_ = scratch_ / "a";
};

const GoFunction& function_named(const Pclntab& table, std::string_view name) {
  auto found = std::ranges::find(table.functions(), name, &GoFunction::name);
  if (found == table.functions().end()) {
    ADD_FAILURE() << "no " << name;
    std::abort();
  }
  return *found;
}

TEST_F(GoProgram, FunctionsAreThoseOfGoToolNm) {
  ElfFile file = build("");
  Pclntab table = table_of(file);
  std::multiset<std::string> want, got;
  for (const std::string& line : lines_of(output_of("go tool nm " + path_))) {
    std::istringstream words(line);
    std::string address, kind, name;
    words >> address >> kind;
    std::getline(words >> std::ws, name);
    if (kind != "T" && kind != "t") continue;
    if (name == "runtime.text" || name == "runtime.etext") continue;
    want.insert(address + " " + without_details(name));
  }
  for (const GoFunction& f : table.functions())
    got.insert(fmt::format("{:x} {}", f.entry.value, without_details(f.name)));
  EXPECT_GT(got.size(), 500u);
  EXPECT_EQ(got, want);
}

TEST_F(GoProgram, InlinedCallsTellWhereTheyWereCalled) {
  ElfFile file = build("-ldflags='-s -w'");
  Pclntab table = table_of(file);
  const GoFunction& caller = function_named(table, "main.caller");
  auto calls = table.inlined_calls(caller);
  auto find = [&](std::string_view name) { return std::ranges::find(calls, name, &GoInlinedCall::function); };
  auto tripled = find("main.tripled"), outer = find("main.outer");
  ASSERT_NE(tripled, calls.end());
  ASSERT_NE(outer, calls.end());
  EXPECT_EQ(tripled->call_line, 9u);
  EXPECT_EQ(outer->call_line, 14u);
  EXPECT_TRUE(outer->call_file.ends_with("main.go")) << outer->call_file;
  ASSERT_TRUE(tripled->parent);
  EXPECT_EQ(calls[*tripled->parent].function, "main.outer");
  EXPECT_FALSE(outer->parent);
  auto frames = table.frames_at(tripled->ranges.at(0).begin);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].function, "main.tripled");
  EXPECT_EQ(frames[0].line, 6u);
  EXPECT_EQ(frames[1].function, "main.outer");
  EXPECT_EQ(frames[1].line, 9u);
  EXPECT_EQ(frames[2].function, "main.caller");
  EXPECT_EQ(frames[2].line, 14u);
}

TEST_F(GoProgram, LinesAreThoseOfGoToolAddr2line) {
  ElfFile file = build("");
  Pclntab table = table_of(file);
  std::string addresses, want;
  std::vector<uint64_t> sampled;
  for (const GoFunction& function : table.functions()) {
    for (uint64_t at : {uint64_t(0), function.size / 2, function.size - 1})
      sampled.push_back(function.entry.value + at);
  }
  for (uint64_t address : sampled) addresses += fmt::format("{:#x}\n", address);
  auto lines =
      lines_of(output_of("go tool addr2line " + path_ + " < " + scratch_.write("addresses", addresses)));
  ASSERT_EQ(lines.size(), sampled.size() * 2);
  for (size_t i = 0; i < sampled.size(); ++i) {
    auto frames = table.frames_at({sampled[i]});
    ASSERT_FALSE(frames.empty());
    EXPECT_EQ(fmt::format("{}:{}", frames[0].file, frames[0].line), lines[2 * i + 1]) << lines[2 * i];
    EXPECT_EQ(without_details(frames.back().function), without_details(lines[2 * i]));
  }
}

TEST_F(GoProgram, PositionIndependentAndExternallyLinked) {
  for (std::string flags :
       {"-buildmode=pie", "-buildmode=pie -ldflags=-linkmode=external", "-ldflags=-linkmode=external"}) {
    SCOPED_TRACE(flags);
    ElfFile file = build(flags);
    expect_as_symbols(file);
    EXPECT_EQ(table_of(file).inlined_calls(function_named(table_of(file), "main.caller")).size(), 2u);
    auto info = read_go_build_info(file);
    ASSERT_TRUE(info);
    EXPECT_TRUE(info->version.starts_with("go1."));
    // And once more when nothing but segments is left.
    std::string image = without_section_headers(read_all(path_));
    auto bare = ElfFile::from_bytes(as_bytes(image), "bare");
    Pclntab a = table_of(file), b = table_of(*bare);
    EXPECT_EQ(a.address(), b.address());
    EXPECT_EQ(a.text_start(), b.text_start());
    EXPECT_EQ(a.functions().size(), b.functions().size());
    auto bare_info = read_go_build_info(*bare);
    ASSERT_TRUE(bare_info);
    EXPECT_EQ(bare_info->version, info->version);
  }
}

// A table as Go 1.2 to 1.15 wrote it: two functions, two files.
std::string old_table() {
  std::string t("\xfb\xff\xff\xff\x00\x00\x01\x08", 8);
  auto u64 = [&](uint64_t v) { t.append(reinterpret_cast<const char*>(&v), 8); };
  auto u32 = [&](uint32_t v) { t.append(reinterpret_cast<const char*>(&v), 4); };
  constexpr uint32_t records = 64, record_size = 48, texts = records + 2 * record_size;
  u64(2);
  u64(0x401000), u64(records);
  u64(0x401020), u64(records + record_size);
  u64(0x401040);
  constexpr uint32_t files = texts + 40;
  u32(files), u32(0);
  // The texts: names at 0 and 7, the file at 14, then pc-value tables at 22 (size 16, value 0) and 27 (lines
  // 5 and 6).
  for (uint32_t i = 0; i < 2; ++i) {
    u64(0x401000 + i * 0x20);
    u32(texts + i * 7), u32(0), u32(0);
    u32(texts + 22), u32(texts + 33), u32(texts + 27);
    u32(0), u32(0), u32(0);
    t.resize(records + (i + 1) * record_size);
  }
  t += std::string("main.a\0main.b\0/x/a.go\0", 22);
  t += std::string("\x02\x10\x00\0\0", 5);        // 22: value 0 for 16 bytes
  t += std::string("\x0c\x08\x02\x08\x00\0", 6);  // 27: line 5 for 8 bytes, then 6 for 8
  t += std::string("\x04\x10\x00", 3);            // 33: file 1 for 16 bytes
  t.resize(files);
  u32(2), u32(texts + 14);
  return t;
}

TEST(Pclntab, TheFormatBeforeGo116) {
  Elf64_Phdr segments[2] = {};
  segments[0] = {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_offset = 0,
                 .p_vaddr = 0x401000,
                 .p_filesz = 0x100,
                 .p_memsz = 0x100};
  std::string table = old_table();
  segments[1] = {.p_type = PT_LOAD,
                 .p_flags = PF_R,
                 .p_offset = 0x100,
                 .p_vaddr = 0x500000,
                 .p_filesz = table.size(),
                 .p_memsz = table.size()};
  std::string image = elf_header();
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  header->e_phoff = sizeof *header;
  header->e_phnum = 2;
  image.append(reinterpret_cast<const char*>(segments), sizeof segments);
  image.resize(0x100);
  image += table;
  auto file = ElfFile::from_bytes(as_bytes(image), "old");
  ASSERT_TRUE(file);
  Pclntab found = table_of(*file);
  EXPECT_EQ(found.format(), PclntabFormat::Go1_2);
  ASSERT_EQ(found.functions().size(), 2u);
  EXPECT_EQ(found.functions()[1].name, "main.b");
  EXPECT_EQ(found.functions()[1].entry, ImageAddr{0x401020});
  EXPECT_EQ(found.functions()[1].size, 16u);
  auto frames = found.frames_at({0x401029});
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].file, "/x/a.go");
  EXPECT_EQ(frames[0].line, 6u);
  EXPECT_EQ(found.function_at({0x401030}), nullptr) << "padding";

  // Entries that go backwards are no table.
  image[0x100 + 16 + 16] = '\0';
  image[0x100 + 16 + 17] = '\0';
  auto damaged = ElfFile::from_bytes(as_bytes(image), "damaged");
  auto none = Pclntab::find(*damaged);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

TEST(Pclntab, ADamagedSectionIsAnErrorNotSilence) {
  ElfFile whole = fixture("go1.26-stripped");
  std::string image(as_text(whole.bytes()));
  image[whole.find_section(".gopclntab")->offset.value] = 0x42;
  auto file = ElfFile::from_bytes(as_bytes(image), "damaged");
  auto table = Pclntab::find(*file);
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().message().find(".gopclntab is damaged"), std::string::npos);
}

}  // namespace
}  // namespace uscope::image
