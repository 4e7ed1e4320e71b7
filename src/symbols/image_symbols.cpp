#include "symbols/image_symbols.h"

#include <algorithm>
#include <deque>

#include "image/elf/symbols.h"

namespace uscope::symbols {
namespace {

using image::ElfFile;

bool by_address(const FunctionSymbol& a, const FunctionSymbol& b) {
  return a.address != b.address ? a.address < b.address : a.name < b.name;
}

FunctionSymbol from_elf(const image::Symbol& symbol, NameSource source) {
  FunctionSymbol function;
  function.name = symbol.name;
  function.address = symbol.address;
  function.size = symbol.size;
  function.source = source;
  function.is_ifunc = symbol.kind == image::SymbolKind::IndirectFunction;
  function.is_global = symbol.binding != image::SymbolBinding::Local;
  function.version = symbol.version;
  return function;
}

// Rust's legacy mangling is C++'s with a hash as the last component: …17h0123456789abcdefE.
bool is_rust_name(std::string_view name) {
  return name.starts_with("_R") ||
         (name.starts_with("_ZN") && name.size() > 20 && name.substr(name.size() - 20, 3) == "17h");
}

}  // namespace

struct ImageSymbols::Impl {
  std::string path, root;
  std::optional<ElfFile> elf;
  std::optional<image::DebugFiles> debug_files;
  std::optional<ElfFile> mini_debug_info;
  std::optional<image::dwarf::DebugInfo> debug_info;
  std::deque<std::string> owned_names;  // names that no file's bytes hold
  std::vector<FunctionSymbol> functions;
  bool functions_loaded = false;
  bool names_local_functions = false;
  std::string go_version;
  std::vector<std::string> problems;

  void load_functions();
  void load_elf_functions();
  void add_elf_symbols(const ElfFile& file, std::optional<NameSource> source);
  void add_debug_info_functions();
  const image::DebugFiles& find_debug_files();
};

const image::DebugFiles& ImageSymbols::Impl::find_debug_files() {
  if (!debug_files) debug_files = image::find_debug_files(*elf, {.root = root});
  return *debug_files;
}

void ImageSymbols::Impl::add_elf_symbols(const ElfFile& file, std::optional<NameSource> source) {
  image::SymbolList list = image::read_function_symbols(file);
  problems.insert(problems.end(), list.problems.begin(), list.problems.end());
  names_local_functions |= list.has_symtab;
  functions.reserve(functions.size() + list.symbols.size());
  for (const image::Symbol& symbol : list.symbols) {
    if (!symbol.is_function()) continue;
    NameSource table = symbol.table == image::SymbolTable::Dynsym ? NameSource::Dynsym : NameSource::Symtab;
    functions.push_back(from_elf(symbol, source.value_or(table)));
  }
}

void ImageSymbols::Impl::load_elf_functions() {
  add_elf_symbols(*elf, std::nullopt);
  bool complete = names_local_functions;
  if (!complete) {
    const image::DebugFiles& found = find_debug_files();
    if (found.file && found.kind != image::DebugFileKind::MiniDebugInfo) {
      add_elf_symbols(*found.file, NameSource::DebugFile);
    } else if (found.file) {
      add_elf_symbols(*found.file, NameSource::MiniDebugInfo);
    }
    if (!names_local_functions && elf->has_debug_info()) add_debug_info_functions();
  }
}

void ImageSymbols::Impl::add_debug_info_functions() {
  auto info = image::dwarf::DebugInfo::open(*elf, root);
  if (!info) return;
  info->for_each_function([this](const image::dwarf::Function& function) {
    FunctionSymbol symbol;
    symbol.name =
        owned_names.emplace_back(function.linkage_name.empty() ? function.qualified : function.linkage_name);
    symbol.address = function.entry;
    symbol.size = function.ranges.empty() ? 0 : function.ranges[0].end - function.entry;
    symbol.source = NameSource::Dwarf;
    symbol.is_global = function.is_external;
    functions.push_back(symbol);
    return true;
  });
  names_local_functions = true;
  debug_info = std::move(*info);
}

void ImageSymbols::Impl::load_functions() {
  if (functions_loaded) return;
  functions_loaded = true;
  load_elf_functions();
  if (!std::is_sorted(functions.begin(), functions.end(), by_address))
    std::stable_sort(functions.begin(), functions.end(), by_address);
  auto same = [](const FunctionSymbol& a, const FunctionSymbol& b) {
    return a.address == b.address && a.name == b.name && (a.version == b.version || b.version.empty());
  };
  functions.erase(std::unique(functions.begin(), functions.end(), same), functions.end());
}

Result<ImageSymbols> ImageSymbols::open(const std::string& path, const std::string& root) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->root = root;
  TRY(ElfFile elf, ElfFile::open(path));
  impl->elf = std::move(elf);
  return ImageSymbols(std::move(impl));
}

ImageSymbols::ImageSymbols(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ImageSymbols::ImageSymbols(ImageSymbols&&) noexcept = default;
ImageSymbols& ImageSymbols::operator=(ImageSymbols&&) noexcept = default;
ImageSymbols::~ImageSymbols() = default;

const std::string& ImageSymbols::path() const { return impl_->path; }
bool ImageSymbols::is_elf() const { return impl_->elf.has_value(); }
const ElfFile& ImageSymbols::elf() const { return *impl_->elf; }
const image::DebugFiles& ImageSymbols::debug_files() const { return impl_->find_debug_files(); }

std::span<const FunctionSymbol> ImageSymbols::functions() const {
  impl_->load_functions();
  return impl_->functions;
}

bool ImageSymbols::is_stripped() const {
  impl_->load_functions();
  return !impl_->names_local_functions;
}

const std::vector<std::string>& ImageSymbols::problems() const { return impl_->problems; }

const FunctionSymbol* ImageSymbols::function_at(ImageAddr address) const {
  auto all = functions();
  auto after = std::upper_bound(all.begin(), all.end(), address,
                                [](ImageAddr a, const FunctionSymbol& f) { return a < f.address; });
  const FunctionSymbol* best = nullptr;
  // Aliases share an address: an exported, unadorned name reads best. Nested symbols are rare: look back a
  // little.
  int looked = 0;
  for (auto at = after; at != all.begin() && looked < 64; ++looked) {
    --at;
    bool holds = address - at->address < at->size || address == at->address;
    if (best != nullptr && at->address != best->address) break;
    if (!holds) continue;
    auto adorned = [](const FunctionSymbol& f) {
      return f.name.size() - f.name.find_first_not_of('_') == f.name.size() ? 0 : 1;
    };
    if (best == nullptr || at->is_global > best->is_global ||
        (at->is_global == best->is_global && adorned(*at) < adorned(*best)))
      best = &*at;
  }
  return best;
}

std::optional<FileOffset> ImageSymbols::file_offset(ImageAddr address) const {
  return impl_->elf->to_file_offset(address);
}
std::optional<ImageAddr> ImageSymbols::image_address(FileOffset offset) const {
  return impl_->elf->to_image_addr(offset);
}

std::optional<Bytes> ImageSymbols::code_at(ImageAddr address, uint64_t size) const {
  return impl_->elf->bytes_at(address, size);
}

const image::dwarf::DebugInfo& ImageSymbols::debug_info() const {
  if (!impl_->debug_info) {
    auto info = image::dwarf::DebugInfo::open(*impl_->elf, impl_->root);
    if (!info) {
      impl_->problems.push_back(info.error().message());
      info = image::dwarf::DebugInfo::none(impl_->problems.back());
    }
    impl_->debug_info = std::move(*info);
  }
  return *impl_->debug_info;
}

image::Language ImageSymbols::language() const {
  if (!impl_->go_version.empty()) return image::Language::Go;
  image::Language language = image::Language::C;
  for (const FunctionSymbol& function : functions()) {
    if (is_rust_name(function.name)) return image::Language::Rust;
    if (function.name.starts_with("_Z")) language = image::Language::Cpp;
  }
  return language;
}

const std::string& ImageSymbols::go_version() const {
  impl_->load_functions();
  return impl_->go_version;
}

}  // namespace uscope::symbols
