#include "image/elf/symbols.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

// "address name@@version" of each function, as nm spells it.
std::multiset<std::string> ours(const SymbolList& list) {
  std::multiset<std::string> result;
  for (const Symbol& s : list.symbols) {
    std::string version =
        s.version.empty() ? "" : (s.is_default_version ? "@@" : "@") + std::string(s.version);
    result.insert(fmt::format("{:016x} {}{}", s.address.value, s.name, version));
  }
  return result;
}

// The same from `readelf -sW`, of one table: functions that are defined in a section.
std::multiset<std::string> readelf_functions(const std::string& path, std::string_view table,
                                             const std::set<std::string>& types = {"FUNC", "IFUNC"}) {
  std::multiset<std::string> result;
  bool in_table = false;
  for (const std::string& line : lines_of(output_of("readelf -sW " + path))) {
    if (line.starts_with("Symbol table")) in_table = line.find(table) != std::string::npos;
    std::istringstream words(line);
    std::string number, value, size, type, binding, visibility, section, name;
    words >> number >> value >> size >> type >> binding >> visibility >> section;
    // "[<other>: 1]" may stand before the section.
    while (section.starts_with("[") || section.ends_with("]")) words >> section;
    words >> name;
    if (in_table && types.contains(type) && section != "UND" && section != "ABS")
      result.insert(value + " " + name);
  }
  return result;
}

std::multiset<std::string> nm_dynamic(const std::string& path) {
  std::multiset<std::string> result;
  for (const std::string& line : lines_of(output_of("nm -D --defined-only " + path))) {
    std::istringstream words(line);
    std::string value, kind, name;
    words >> value >> kind >> name;
    if (std::string_view("tTwWi").find(kind) != std::string_view::npos) result.insert(value + " " + name);
  }
  return result;
}

std::vector<std::string> difference(const std::multiset<std::string>& a,
                                    const std::multiset<std::string>& b) {
  std::vector<std::string> result;
  std::ranges::set_difference(a, b, std::back_inserter(result));
  if (result.size() > 10) result.resize(10);
  return result;
}

void expect_same(const std::multiset<std::string>& got, const std::multiset<std::string>& want) {
  EXPECT_EQ(difference(got, want), std::vector<std::string>()) << "listed, but not there";
  EXPECT_EQ(difference(want, got), std::vector<std::string>()) << "there, but not listed";
}

class Library : public testing::TestWithParam<std::string> {};

TEST_P(Library, HasTheFunctionsThatReadelfAndNmSay) {
  if (!std::filesystem::exists(GetParam())) GTEST_SKIP() << "no " << GetParam();
  ElfFile list_file = open_image(GetParam());
  SymbolList list = read_function_symbols(list_file);
  EXPECT_FALSE(list.has_symtab) << "the distribution strips its libraries";
  EXPECT_TRUE(list.has_dynsym);
  EXPECT_TRUE(list.problems.empty());
  EXPECT_GT(list.symbols.size(), 1000u);
  expect_same(ours(list), readelf_functions(GetParam(), ".dynsym"));
  expect_same(ours(list), nm_dynamic(GetParam()));
  EXPECT_TRUE(std::ranges::is_sorted(list.symbols, {}, &Symbol::address));
}

TEST_P(Library, HasTheSameFunctionsWithoutSectionHeaders) {
  if (!std::filesystem::exists(GetParam())) GTEST_SKIP() << "no " << GetParam();
  std::string image = without_section_headers(read_all(GetParam()));
  auto file = ElfFile::from_bytes(as_bytes(image), "bare");
  ASSERT_TRUE(file);
  ElfFile whole = open_image(GetParam());
  EXPECT_EQ(ours(read_function_symbols(*file)), ours(read_function_symbols(whole)));
}

INSTANTIATE_TEST_SUITE_P(OfTheMachine, Library,
                         testing::Values("/lib/x86_64-linux-gnu/libc.so.6",
                                         "/lib/x86_64-linux-gnu/libstdc++.so.6",
                                         "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1"),
                         [](const auto& built) { return fmt::format("_{}", built.index); });

TEST(Symbols, VersionsAndIndirectFunctionsOfLibc) {
  ElfFile libc = open_image("/lib/x86_64-linux-gnu/libc.so.6");
  SymbolList list = read_function_symbols(libc);
  std::map<std::string, const Symbol*> memcpys;
  for (const Symbol& s : list.symbols) {
    if (s.name == "memcpy") memcpys.emplace(s.version, &s);
  }
  ASSERT_TRUE(memcpys.contains("GLIBC_2.14"));
  ASSERT_TRUE(memcpys.contains("GLIBC_2.2.5"));
  EXPECT_TRUE(memcpys["GLIBC_2.14"]->is_default_version);
  EXPECT_EQ(memcpys["GLIBC_2.14"]->kind, SymbolKind::IndirectFunction);
  EXPECT_FALSE(memcpys["GLIBC_2.2.5"]->is_default_version);
}

struct Built {
  std::string compiler, flags;
};

class Program : public testing::TestWithParam<Built> {};

TEST_P(Program, ListsLocalAndGlobalFunctionsOnce) {
  Scratch scratch;
  std::string path = scratch / "a";
  output_of(GetParam().compiler + " -O1 " + GetParam().flags + " -o " + path + " " +
            scratch.write("a.c", small_program));
  ElfFile list_file = open_image(path);
  SymbolList list = read_function_symbols(list_file);
  EXPECT_TRUE(list.has_symtab);
  // Zero-sized .symtab entries and both tables merged: names and addresses as readelf has them, each once.
  std::multiset<std::string> want = readelf_functions(path, ".symtab");
  std::set<std::string> want_once(want.begin(), want.end());
  auto got = ours(list);
  std::set<std::string> got_once(got.begin(), got.end());
  EXPECT_EQ(got.size(), got_once.size()) << "a symbol of both tables is listed twice";
  EXPECT_EQ(got_once, want_once);
  auto find = [&](std::string_view name) { return std::ranges::find(list.symbols, name, &Symbol::name); };
  ASSERT_NE(find("local_function"), list.symbols.end());
  EXPECT_EQ(find("local_function")->binding, SymbolBinding::Local);
  EXPECT_EQ(find("global_function")->binding, SymbolBinding::Global);
  EXPECT_EQ(find("printf"), list.symbols.end()) << "undefined symbols are no functions of this image";
  for (const Symbol& s : list.symbols) EXPECT_NE(s.size, 0u) << s.name;
  auto init = find("_init");
  if (init != list.symbols.end()) {
    EXPECT_TRUE(init->size_is_guess);
  }

  output_of("strip " + path);
  ElfFile stripped_file = open_image(path);
  SymbolList stripped = read_function_symbols(stripped_file);
  EXPECT_FALSE(stripped.has_symtab);
  EXPECT_EQ(std::ranges::count(stripped.symbols, "local_function", &Symbol::name), 0);
}

INSTANTIATE_TEST_SUITE_P(Builds, Program,
                         testing::Values(Built{"gcc", "-pie -fPIE"}, Built{"gcc", "-no-pie"},
                                         Built{"gcc", "-shared -fPIC"}, Built{"clang-14", "-pie -fPIE"},
                                         Built{"clang-14", "-no-pie"}),
                         [](const auto& built) { return fmt::format("_{}", built.index); });

TEST(Symbols, ColdPartsAndPltEntriesAreNoFunctions) {
  Scratch scratch;
  std::string source = scratch.write("a.cc", R"(
#include <stdexcept>
__attribute__((noinline)) int checked(int x) { if (x > 100) throw std::runtime_error("large"); return x + 1; }
int main(int argc, char**) { try { return checked(argc); } catch (...) { return 2; } }
)");
  output_of("g++ -O2 -o " + (scratch / "a") + " " + source);
  ElfFile list_file = open_image(scratch / "a");
  SymbolList list = read_function_symbols(list_file);
  auto cold = std::ranges::find(list.symbols, "_Z7checkedi.cold", &Symbol::name);
  ASSERT_NE(cold, list.symbols.end());
  EXPECT_TRUE(cold->is_cold_part);
  EXPECT_FALSE(cold->is_function());
  auto hot = std::ranges::find(list.symbols, cold_parent(cold->name), &Symbol::name);
  ASSERT_NE(hot, list.symbols.end());
  EXPECT_TRUE(hot->is_function());
}

TEST(Symbols, ColdNames) {
  EXPECT_EQ(cold_parent("f.cold"), "f");
  EXPECT_EQ(cold_parent("f.cold.12"), "f");
  EXPECT_EQ(cold_parent("f.part.0.cold"), "f.part.0");
  EXPECT_EQ(cold_parent("f.cold.x"), "f.cold.x");
  EXPECT_EQ(cold_parent("f.colder"), "f.colder");
  EXPECT_EQ(cold_parent(".cold"), ".cold");
  EXPECT_EQ(cold_parent("main.Scold.cold"), "main.Scold");
}

TEST(Symbols, DataSymbolsOnRequest) {
  Scratch scratch;
  output_of("gcc -O1 -o " + (scratch / "a") + " " + scratch.write("a.c", small_program));
  ElfFile list_file = open_image(scratch / "a");
  SymbolList list = read_data_symbols(list_file);
  auto counter = std::ranges::find(list.symbols, "counter", &Symbol::name);
  ASSERT_NE(counter, list.symbols.end());
  EXPECT_EQ(counter->kind, SymbolKind::Object);
  EXPECT_EQ(counter->size, 4u);
  EXPECT_EQ(std::ranges::count(list.symbols, "main", &Symbol::name), 0);
}

TEST(Symbols, VersionsInSymtabNamesAreSplit) {
  Scratch scratch;
  scratch.write("a.c",
                "int old_f(void){return 1;} int new_f(void){return 2;}\n"
                "__asm__(\".symver old_f,f@V1\"); __asm__(\".symver new_f,f@@V2\");\n");
  scratch.write("a.map", "V1 { local: old_f; new_f; }; V2 { } V1;");
  output_of("gcc -shared -fPIC -o " + (scratch / "a.so") + " " + (scratch / "a.c") +
            " -Wl,--version-script=" + (scratch / "a.map"));
  ElfFile list_file = open_image(scratch / "a.so");
  SymbolList list = read_function_symbols(list_file);
  std::map<std::string, bool> versions;
  for (const Symbol& s : list.symbols) {
    if (s.name != "f") continue;
    EXPECT_TRUE(versions.emplace(s.version, s.is_default_version).second) << "listed twice";
  }
  EXPECT_EQ(versions, (std::map<std::string, bool>{{"V1", false}, {"V2", true}}));
}

TEST(Symbols, OverlappingNamesOfAHostileFileEndTheReading) {
  // 100,000 symbols whose names all run to the end of one 1 MB text: 100 GB of names if read.
  constexpr uint64_t count = 100000, text_size = 1 << 20;
  std::string image = elf_header(ET_REL);
  std::vector<Elf64_Shdr> sections(3);
  std::vector<Elf64_Sym> symbols(count);
  for (uint64_t i = 0; i < count; ++i) {
    symbols[i] = {.st_name = uint32_t(i), .st_info = STT_FUNC, .st_shndx = 1, .st_value = i, .st_size = 1};
  }
  uint64_t symbols_at = image.size() + sections.size() * sizeof sections[0];
  sections[1] = {
      .sh_type = SHT_SYMTAB, .sh_offset = symbols_at, .sh_size = count * sizeof symbols[0], .sh_link = 2};
  sections[2] = {
      .sh_type = SHT_STRTAB, .sh_offset = symbols_at + count * sizeof symbols[0], .sh_size = text_size};
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  header->e_shoff = sizeof *header;
  header->e_shnum = 3;
  image.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof sections[0]);
  image.append(reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof symbols[0]);
  image.append(text_size, 'a');
  auto file = ElfFile::from_bytes(as_bytes(image), "x");
  ASSERT_TRUE(file);
  SymbolList list = read_function_symbols(*file);
  EXPECT_LT(list.symbols.size(), 200u);
  ASSERT_EQ(list.problems.size(), 1u);
  EXPECT_NE(list.problems[0].find("the names overlap"), std::string::npos);
}

}  // namespace
}  // namespace uscope::image
