#include "image/elf/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "image/elf/versions.h"

namespace uscope::image {
namespace {

enum class Wanted { Functions, Data };

struct RawTable {
  Bytes symbols, strings;
  SymbolTable table = SymbolTable::Symtab;
  const SymbolVersions* versions = nullptr;
};

// The number of dynamic symbols, for images whose section headers are gone: the hash tables know.
uint64_t count_by_hash(const ElfFile& file, const DynamicInfo& dynamic) {
  if (dynamic.hash.value != 0) {
    ByteReader reader(file.bytes_from(dynamic.hash));
    reader.skip(4);
    uint32_t chains = reader.u32();
    if (!reader.failed()) return chains;
  }
  if (dynamic.gnu_hash.value == 0) return 0;
  Bytes table = file.bytes_from(dynamic.gnu_hash);
  ByteReader reader(table);
  uint32_t bucket_count = reader.u32(), first_symbol = reader.u32(), bloom_words = reader.u32();
  reader.skip(4);
  reader.skip(uint64_t(bloom_words) * 8);
  Bytes buckets = reader.take(uint64_t(bucket_count) * 4);
  if (reader.failed()) return 0;
  uint32_t last = 0;
  for (ByteReader each(buckets); !each.at_end();) last = std::max(last, each.u32());
  if (last < first_symbol) return first_symbol;
  // The chain of the highest bucket ends the table; the lowest bit marks a chain's end.
  reader.skip(uint64_t(last - first_symbol) * 4);
  for (uint64_t index = last;; ++index) {
    uint32_t hash = reader.u32();
    if (reader.failed()) return index;
    if ((hash & 1) != 0) return index + 1;
  }
}

// Go's linker marks places in .text with symbols typed as functions.
bool is_go_marker(std::string_view name) {
  if (!name.starts_with("runtime.") && !name.starts_with("go:text")) return false;
  return name == "runtime.text" || name == "runtime.etext" || name == "go:textfipsstart" ||
         name == "go:textfipsend";
}

// Reads tables into one list. Kept apart from the sorting and merging, which know nothing of ELF.
class Reader {
 public:
  Reader(const ElfFile& file, Wanted wanted) : file_(file), wanted_(wanted) {
    plt_.resize(file.sections().size());
    for (const Section& section : file.sections()) {
      plt_[section.index] =
          section.is_executable() &&
          (section.name == ".plt" || section.name.starts_with(".plt.") || section.name == ".iplt");
    }
  }

  void read_symtab(SymbolList& list) {
    for (const Section& section : file_.sections()) {
      if (section.type != SHT_SYMTAB) continue;
      Bytes symbols = file_.stored_bytes(section);
      if (symbols.size() < section.size)
        list.problems.emplace_back("the symbol table runs past the end of the file");
      if (section.link >= file_.sections().size()) {
        list.problems.emplace_back("the symbol table has no names");
        return;
      }
      list.has_symtab = symbols.size() > sizeof(Elf64_Sym);
      read({symbols, file_.stored_bytes(file_.sections()[section.link]), SymbolTable::Symtab, nullptr}, list);
      return;
    }
  }

  void read_dynsym(SymbolList& list) {
    DynamicInfo dynamic = file_.dynamic();
    if (dynamic.symbol_table.value == 0) return;
    Bytes symbols = file_.bytes_from(dynamic.symbol_table);
    const Section* section = file_.section_at(dynamic.symbol_table);
    bool has_section =
        section != nullptr && section->type == SHT_DYNSYM && section->address == dynamic.symbol_table;
    uint64_t count = has_section ? section->size / sizeof(Elf64_Sym) : count_by_hash(file_, dynamic);
    uint64_t fitting = std::min<uint64_t>(count, symbols.size() / sizeof(Elf64_Sym));
    if (fitting < count) {
      list.problems.push_back(fmt::format("only {} of {} dynamic symbols lie in the file", fitting, count));
    }
    Bytes strings = file_.bytes_from(dynamic.string_table);
    strings = strings.first(std::min<uint64_t>(strings.size(), dynamic.string_table_size));
    list.has_dynsym = fitting > 1;
    SymbolVersions versions(file_, dynamic, strings);
    read({symbols.first(fitting * sizeof(Elf64_Sym)), strings, SymbolTable::Dynsym, &versions}, list);
  }

 private:
  void read(const RawTable& table, SymbolList& list) {
    uint64_t count = table.symbols.size() / sizeof(Elf64_Sym);
    // Names may share their tails, but when all of them together are far longer than the table, the file is
    // hostile and reading on would take forever.
    uint64_t budget = (uint64_t(64) << 20) + 8 * table.strings.size();
    list.symbols.reserve(list.symbols.size() + count);
    for (uint64_t i = 1; i < count; ++i) {
      Elf64_Sym raw;
      std::memcpy(&raw, table.symbols.data() + i * sizeof raw, sizeof raw);
      Symbol symbol;
      if (!classify(raw, symbol)) continue;
      symbol.name = cstring_at(table.strings, raw.st_name);
      if (symbol.name.empty() || is_go_marker(symbol.name)) continue;
      if (symbol.name.size() > budget) {
        list.problems.push_back(fmt::format("stopped at symbol {} of {}: the names overlap", i, count));
        break;
      }
      budget -= symbol.name.size();
      symbol.table = table.table;
      if (table.versions != nullptr) {
        auto version = table.versions->of(i);
        symbol.version = version.name;
        symbol.is_default_version = version.is_default;
      } else {
        split_version(symbol);
      }
      symbol.is_cold_part =
          symbol.kind == SymbolKind::Function && cold_parent(symbol.name).size() != symbol.name.size();
      list.symbols.push_back(symbol);
    }
  }

  // Fills in what the record itself says; false if this symbol is not wanted.
  bool classify(const Elf64_Sym& raw, Symbol& symbol) const {
    if (raw.st_shndx == SHN_UNDEF) return false;
    switch (ELF64_ST_TYPE(raw.st_info)) {
      case STT_FUNC:
        symbol.kind = SymbolKind::Function;
        break;
      case STT_GNU_IFUNC:
        symbol.kind = SymbolKind::IndirectFunction;
        break;
      case STT_OBJECT:
        symbol.kind = SymbolKind::Object;
        break;
      case STT_TLS:
        symbol.kind = SymbolKind::ThreadLocal;
        break;
      default:
        return false;
    }
    bool is_code = symbol.kind == SymbolKind::Function || symbol.kind == SymbolKind::IndirectFunction;
    if (is_code != (wanted_ == Wanted::Functions)) return false;
    symbol.address = {raw.st_value};
    // Absolute symbols are numbers (the linker's version nodes, for one), not places.
    if (raw.st_shndx == SHN_ABS || raw.st_shndx == SHN_COMMON) return false;
    if (is_code && !file_.loads().empty() && !file_.is_executable(symbol.address)) return false;
    symbol.size = raw.st_size > UINT64_MAX - raw.st_value ? 0 : raw.st_size;
    uint8_t binding = ELF64_ST_BIND(raw.st_info);
    symbol.binding = binding == STB_LOCAL  ? SymbolBinding::Local
                     : binding == STB_WEAK ? SymbolBinding::Weak
                                           : SymbolBinding::Global;
    symbol.is_plt = is_code && raw.st_shndx < plt_.size() && plt_[raw.st_shndx];
    return true;
  }

  // The linker spells versions into the names of .symtab: memcpy@@GLIBC_2.14.
  static void split_version(Symbol& symbol) {
    size_t at = symbol.name.find('@');
    if (at == std::string_view::npos || at == 0) return;
    bool is_default = symbol.name.substr(at).starts_with("@@");
    std::string_view version = symbol.name.substr(at + (is_default ? 2 : 1));
    auto in_version = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
    };
    // Go's names may hold an @ too; theirs have a path around it.
    if (version.empty() || !std::ranges::all_of(version, in_version)) return;
    if (symbol.name.substr(0, at).find('/') != std::string_view::npos) return;
    symbol.name = symbol.name.substr(0, at);
    symbol.version = version;
    symbol.is_default_version = is_default;
  }

  const ElfFile& file_;
  Wanted wanted_;
  std::vector<bool> plt_;
};

auto order_of(const Symbol& s) { return std::tuple(s.address, s.name); }

void sort_by_address(std::vector<Symbol>& symbols) {
  std::ranges::stable_sort(symbols, [](const Symbol& a, const Symbol& b) {
    if (a.address != b.address) return a.address < b.address;
    if (int order = a.name.compare(b.name); order != 0) return order < 0;
    return a.version < b.version;
  });
}

// In each run of symbols with one name and address, drops repetitions, and those without a version where
// another has one: .symtab may leave the version out that .dynsym spells.
void merge_duplicates(std::vector<Symbol>& symbols) {
  size_t kept = 0;
  for (size_t i = 0; i < symbols.size();) {
    size_t end = i + 1;
    while (end < symbols.size() && order_of(symbols[end]) == order_of(symbols[i])) ++end;
    size_t first = kept;
    uint64_t size = 0;
    bool in_symtab = false;
    for (size_t k = i; k < end; ++k) {
      size = std::max(size, symbols[k].size);
      in_symtab |= symbols[k].table == SymbolTable::Symtab;
      bool versioned_later = symbols[k].version.empty() && !symbols[end - 1].version.empty();
      bool repeated = kept > first && symbols[kept - 1].version == symbols[k].version;
      if (!versioned_later && !repeated) symbols[kept++] = symbols[k];
    }
    for (size_t k = first; k < kept; ++k) {
      symbols[k].size = size;
      if (in_symtab) symbols[k].table = SymbolTable::Symtab;
    }
    i = end;
  }
  symbols.resize(kept);
}

// Hand-written assembly may lack sizes. Only where .symtab names the local functions too does the next symbol
// bound the one before it.
void guess_sizes(const ElfFile& file, std::vector<Symbol>& symbols) {
  uint64_t next_address = UINT64_MAX;
  for (size_t i = symbols.size(); i-- > 0;) {
    Symbol& symbol = symbols[i];
    if (i + 1 < symbols.size() && symbols[i + 1].address != symbol.address)
      next_address = symbols[i + 1].address.value;
    if (symbol.size != 0 || symbol.is_plt) continue;
    const Section* section = file.section_at(symbol.address);
    if (section == nullptr || !section->is_executable()) continue;
    // Counted from the symbol: a lying section's end may lie past the end of all addresses.
    uint64_t left_in_section = section->size - (symbol.address - section->address);
    symbol.size =
        std::min({next_address - symbol.address.value, left_in_section, UINT64_MAX - symbol.address.value});
    symbol.size_is_guess = true;
  }
}

SymbolList read_symbols(const ElfFile& file, Wanted wanted) {
  SymbolList list;
  Reader reader(file, wanted);
  reader.read_symtab(list);
  reader.read_dynsym(list);
  sort_by_address(list.symbols);
  merge_duplicates(list.symbols);
  if (wanted == Wanted::Functions && list.has_symtab) guess_sizes(file, list.symbols);
  return list;
}

}  // namespace

std::string_view cold_parent(std::string_view name) {
  // The last part, or the one before it if the last is a number (".cold.12", as older gcc and llvm have it).
  // Looking from the end only: every symbol of a library comes through here.
  std::string_view part = name;
  while (!part.empty() && part.back() >= '0' && part.back() <= '9') part.remove_suffix(1);
  if (part.size() < name.size() && part.ends_with('.'))
    part.remove_suffix(1);
  else
    part = name;
  return part.size() > 5 && part.ends_with(".cold") ? part.substr(0, part.size() - 5) : name;
}

SymbolList read_function_symbols(const ElfFile& file) { return read_symbols(file, Wanted::Functions); }
SymbolList read_data_symbols(const ElfFile& file) { return read_symbols(file, Wanted::Data); }

bool defines_any_function(const ElfFile& file, std::span<const std::string_view> names) {
  for (const Section& section : file.sections()) {
    if (section.type != SHT_SYMTAB || section.link >= file.sections().size()) continue;
    const Bytes symbols = file.stored_bytes(section);
    const Bytes strings = file.stored_bytes(file.sections()[section.link]);
    for (size_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym raw;
      std::memcpy(&raw, symbols.data() + i * sizeof raw, sizeof raw);
      if (ELF64_ST_TYPE(raw.st_info) != STT_FUNC || raw.st_shndx == SHN_UNDEF) continue;
      if (raw.st_name >= strings.size()) continue;
      const Bytes found = strings.subspan(raw.st_name);
      for (std::string_view name : names)
        if (found[0] == uint8_t(name[0]) && found.size() > name.size() && found[name.size()] == 0 &&
            std::memcmp(found.data(), name.data(), name.size()) == 0)
          return true;
    }
  }
  return false;
}

}  // namespace uscope::image
