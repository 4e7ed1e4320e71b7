// The symbols an ELF image defines, from .symtab and .dynsym (through PT_DYNAMIC when there are no section
// headers). Undefined symbols are left out; one that both tables have appears once. Names are views into the
// ElfFile, as the table spells them (mangled) but without their version suffix. Does not follow debug files
// (debug_files.h), does not demangle.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"

namespace uscope::image {

enum class SymbolKind : uint8_t { Function, IndirectFunction, Object, ThreadLocal };
enum class SymbolBinding : uint8_t { Local, Global, Weak };
enum class SymbolTable : uint8_t { Symtab, Dynsym };

struct Symbol {
  std::string_view name;
  std::string_view version;  // "GLIBC_2.14"; empty if it has none
  ImageAddr address;         // of a ThreadLocal: its offset in the thread-local block
  uint64_t size = 0;         // 0: unknown
  SymbolKind kind = SymbolKind::Function;
  SymbolBinding binding = SymbolBinding::Global;
  SymbolTable table = SymbolTable::Symtab;
  bool is_default_version = false;  // name@@version, what new programs link to
  bool size_is_guess = false;       // the table said 0: it reaches to the next function or the section's end
  bool is_cold_part = false;  // the `.cold` part of the function cold_parent(name): not a function of its own
  bool is_plt = false;        // in a procedure linkage table: not a function of its own

  bool is_function() const { return !is_cold_part && !is_plt; }
};

struct SymbolList {
  std::vector<Symbol> symbols;  // by address, then name, then version
  bool has_symtab = false;      // false: stripped, local functions are not named
  bool has_dynsym = false;
  std::vector<std::string> problems;  // what could not be read; the list is then partial
};

// Functions and indirect functions (IFUNC) that lie in executable memory, parts and PLT entries marked.
SymbolList read_function_symbols(const ElfFile& file);
// Objects, thread-local ones too.
SymbolList read_data_symbols(const ElfFile& file);
// The names would outlive the bytes they are in.
SymbolList read_function_symbols(ElfFile&&) = delete;
SymbolList read_data_symbols(ElfFile&&) = delete;

// Whether .symtab defines a function of one of these names. Makes no list: quick also for large tables.
bool defines_any_function(const ElfFile& file, std::span<const std::string_view> names);

// "f" for "f.cold", "f.cold.1", "f.part.0.cold" ("f.part.0"); the name itself if it is no such part.
std::string_view cold_parent(std::string_view name);

}  // namespace uscope::image
