// One image file (ELF or .NET PE), opened for looking things up: its functions from every table it has, its
// debug info, and the names that users type. Owns the file's bytes and the debug files that belong to it;
// names are views into them. Debug info is opened on the first question that needs it. One thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "image/dwarf/debug_info.h"
#include "image/elf/debug_files.h"
#include "image/elf/elf_file.h"
#include "image/elf/relocated.h"
#include "image/exceptions/unwind_entries.h"
#include "image/go/pclntab.h"
#include "image/pe/native_image.h"
#include "image/types.h"

namespace uscope::symbols {

// Which table a function's name came from.
enum class NameSource { Symtab, Dynsym, DebugFile, MiniDebugInfo, GoPclntab, ReadyToRun, Dwarf, Unwinder };

struct FunctionSymbol {
  std::string_view name;  // as the table spells it: mangled, Go path, .NET signature
  ImageAddr address;
  uint64_t size = 0;  // 0: unknown
  NameSource source = NameSource::Symtab;
  bool is_ifunc = false;
  bool is_global = false;
  bool size_is_guess = false;   // the table says 0; it reaches to what follows
  std::string_view version;     // GLIBC_2.14; empty if none
  std::string_view short_name;  // .NET: Ns.Type::Method, what a user types; empty elsewhere
};

class ImageSymbols {
 public:
  // `path` is opened as it is; `root` prefixes look-ups of debug files (/proc/PID/root), which are also
  // looked for in `debug_folders`, before the usual places.
  static Result<ImageSymbols> open(const std::string& path, const std::string& root = "",
                                   const std::vector<std::string>& debug_folders = {});
  // The kernel's own small library, which every process has mapped; read from this process.
  static Result<ImageSymbols> of_vdso();
  ImageSymbols(ImageSymbols&&) noexcept;
  ImageSymbols& operator=(ImageSymbols&&) noexcept;
  ~ImageSymbols();

  const std::string& path() const;
  bool is_elf() const;
  const image::ElfFile& elf() const;  // is_elf() only

  // Every function with code in this file, by address then name; aliases (several names, one address) all
  // appear.
  std::span<const FunctionSymbol> functions() const;
  // The `.cold` parts of functions, by address; their names say whose.
  std::span<const FunctionSymbol> cold_parts() const;
  // The part of the function of this name; null if there is none, or if several functions or parts claim it.
  const FunctionSymbol* cold_part_of(std::string_view function) const;
  // A stripped file's functions that only .eh_frame knows of, by address; each is called sub_ADDRESS. Made on
  // the first question, which reads all of the file's code.
  std::span<const FunctionSymbol> unnamed_functions() const;
  // The function that begins at an address, with or without a name.
  const FunctionSymbol* function_from(ImageAddr address) const;
  // True if neither .symtab nor debug info nor a language's own table names the local functions.
  bool is_stripped() const;
  // What could not be read, one sentence each.
  const std::vector<std::string>& problems() const;

  // The function that holds an address, by its bounds.
  const FunctionSymbol* function_at(ImageAddr address) const;
  // The part of a function (work.cold) that holds an address outside of all functions.
  const FunctionSymbol* cold_part_at(ImageAddr address) const;
  std::optional<FileOffset> file_offset(ImageAddr address) const;
  std::optional<ImageAddr> image_address(FileOffset offset) const;

  // The file's bytes for [address, address + size), if it holds all of them.
  std::optional<Bytes> code_at(ImageAddr address, uint64_t size) const;
  bool is_executable(ImageAddr address) const;

  // Where debug info and extra symbols are, or what was tried in vain. is_elf() only.
  const image::DebugFiles& debug_files() const;
  // A .NET image's native code; null elsewhere.
  const image::NativeImage* native_image() const;
  // Never null; is_empty() when there is none.
  const image::dwarf::DebugInfo& debug_info() const;
  // The language of the program: from Go's tables, DWARF, mangling.
  image::Language language() const;
  // "go1.26.8" for a Go program; empty otherwise.
  const std::string& go_version() const;
  // Go's own function and line tables; null for other programs.
  const image::Pclntab* pclntab() const;
  // Which code is one piece to the unwinder, and its exception tables. is_elf() only.
  const image::UnwindEntries& unwind_entries() const;
  // Every one of them; see UnwindEntries::all().
  std::span<const image::UnwindEntry> all_unwind_entries() const;
  // The data as the dynamic linker leaves it. is_elf() only.
  const image::RelocatedImage& relocated() const;
  // Whether it is always loaded at the addresses it says: then no relocations tell of its pointers.
  bool is_fixed() const;

 private:
  struct Impl;
  explicit ImageSymbols(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uscope::symbols
