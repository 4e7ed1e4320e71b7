#include "symbols/image_symbols.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "base/mapped_file.h"
#include "image/elf/symbols.h"
#include "image/go/build_info.h"
#include "image/pe/pe_file.h"
#include "process/maps.h"
#include "symbols/unnamed_functions.h"

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
  function.size_is_guess = symbol.size_is_guess;
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
  std::vector<std::string> debug_folders;
  std::optional<ElfFile> elf;
  std::optional<image::DebugFiles> debug_files;
  std::optional<ElfFile> mini_debug_info;
  std::optional<image::dwarf::DebugInfo> debug_info;
  std::deque<std::string> owned_names;  // names that no file's bytes hold
  std::vector<FunctionSymbol> functions, cold_parts;
  std::vector<ImageAddr> reach;  // where the last of the functions up to here ends
  std::unordered_map<std::string_view, const FunctionSymbol*> parts_by_parent;  // null: not one to one
  std::optional<std::vector<FunctionSymbol>> unnamed;
  std::optional<image::Language> language;
  std::optional<image::UnwindEntries> unwind_entries;
  std::optional<image::RelocatedImage> relocated;
  bool functions_loaded = false;
  bool names_local_functions = false;
  std::optional<image::Pclntab> pclntab;
  std::string go_version;
  std::optional<MappedFile> pe_bytes;
  std::optional<image::PeFile> pe;
  std::optional<image::NativeImage> native_image;
  std::vector<std::string> problems;

  void load_functions();
  void load_elf_functions();
  void add_elf_symbols(const ElfFile& file, std::optional<NameSource> source);
  void add_debug_info_functions();
  void load_go_tables();
  void add_go_functions();
  void add_native_methods();
  void pair_cold_parts();
  const image::DebugFiles& find_debug_files();
};

const image::DebugFiles& ImageSymbols::Impl::find_debug_files() {
  if (!debug_files) debug_files = image::find_debug_files(*elf, {.root = root, .folders = debug_folders});
  return *debug_files;
}

void ImageSymbols::Impl::add_elf_symbols(const ElfFile& file, std::optional<NameSource> source) {
  image::SymbolList list = image::read_function_symbols(file);
  problems.insert(problems.end(), list.problems.begin(), list.problems.end());
  names_local_functions |= list.has_symtab;
  functions.reserve(functions.size() + list.symbols.size());
  for (const image::Symbol& symbol : list.symbols) {
    if (symbol.is_plt) continue;
    NameSource table = symbol.table == image::SymbolTable::Dynsym ? NameSource::Dynsym : NameSource::Symtab;
    (symbol.is_cold_part ? cold_parts : functions).push_back(from_elf(symbol, source.value_or(table)));
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
  auto info = image::dwarf::DebugInfo::open(*elf, root, debug_folders);
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

void ImageSymbols::Impl::load_go_tables() {
  auto table = image::Pclntab::find(*elf);
  if (!table) {
    problems.push_back(table.error().message());
  } else if (*table) {
    pclntab = std::move(**table);
    problems.insert(problems.end(), pclntab->problems().begin(), pclntab->problems().end());
    auto build = image::read_go_build_info(*elf);
    go_version = build ? build->version : "go";
  }
}

// Go's own table is the truth about Go's functions: the symbol table also has markers and, in stripped files,
// nothing. What the symbol table names outside of them is C code linked in by cgo.
void ImageSymbols::Impl::add_go_functions() {
  // Go 1.18 to 1.20 write generic functions as f[...] there; the symbol table has their shapes.
  std::unordered_map<uint64_t, std::string_view> full_names;
  std::erase_if(functions, [&](const FunctionSymbol& symbol) {
    bool is_marker = symbol.name == "runtime.text" || symbol.name == "runtime.etext";
    if (symbol.name.find('[') != std::string_view::npos) full_names[symbol.address.value] = symbol.name;
    return is_marker || pclntab->function_at(symbol.address) != nullptr;
  });
  for (const image::GoFunction& go : pclntab->functions()) {
    FunctionSymbol function;
    auto full = full_names.find(go.entry.value);
    function.name =
        full != full_names.end() && go.name.find("[...]") != std::string_view::npos ? full->second : go.name;
    function.address = go.entry;
    function.size = go.size;
    function.source = NameSource::GoPclntab;
    function.is_global = true;
    functions.push_back(function);
  }
  names_local_functions = true;
}

void ImageSymbols::Impl::add_native_methods() {
  for (const image::NativeMethod& method : native_image->methods) {
    FunctionSymbol function;
    function.name = owned_names.emplace_back(method.full_name());
    function.short_name = method.qualified_name();
    function.address = method.rva;
    function.size = method.body_size != 0 ? method.body_size : method.size;
    function.source = NameSource::ReadyToRun;
    function.is_global = true;
    functions.push_back(function);
  }
  names_local_functions = true;
}

// Static functions of different files may share a name.
void ImageSymbols::Impl::pair_cold_parts() {
  for (const FunctionSymbol& part : cold_parts) {
    auto [at, is_new] = parts_by_parent.try_emplace(image::cold_parent(part.name), &part);
    if (!is_new) at->second = nullptr;
  }
  std::unordered_map<std::string_view, ImageAddr> parents;
  for (const FunctionSymbol& function : functions) {
    auto part = parts_by_parent.find(function.name);
    if (part == parts_by_parent.end()) continue;
    auto [at, is_new] = parents.try_emplace(function.name, function.address);
    if (!is_new && at->second != function.address) part->second = nullptr;
  }
}

void ImageSymbols::Impl::load_functions() {
  if (functions_loaded) return;
  functions_loaded = true;
  if (native_image) {
    add_native_methods();
  } else {
    load_elf_functions();
    load_go_tables();
    if (pclntab) add_go_functions();
  }
  if (!std::is_sorted(functions.begin(), functions.end(), by_address))
    std::stable_sort(functions.begin(), functions.end(), by_address);
  std::stable_sort(cold_parts.begin(), cold_parts.end(), by_address);
  auto same = [](const FunctionSymbol& a, const FunctionSymbol& b) {
    return a.address == b.address && a.name == b.name && (a.version == b.version || b.version.empty());
  };
  functions.erase(std::unique(functions.begin(), functions.end(), same), functions.end());
  reach.reserve(functions.size());
  for (const FunctionSymbol& function : functions) {
    const ImageAddr end = function.address + std::max<uint64_t>(function.size, 1);
    reach.push_back(reach.empty() ? end : std::max(reach.back(), end));
  }
  if (!cold_parts.empty()) pair_cold_parts();
}

Result<ImageSymbols> ImageSymbols::open(const std::string& path, const std::string& root,
                                        const std::vector<std::string>& debug_folders) {
  auto impl = std::make_unique<Impl>();
  impl->debug_folders = debug_folders;
  impl->path = path;
  impl->root = root;
  TRY(MappedFile file, MappedFile::open(path));
  if (image::looks_like_pe(file.bytes())) {
    TRY(impl->native_image, image::read_native_image(file.bytes(), path));
    impl->problems = impl->native_image->notes;
    if (auto why = impl->native_image->explanation(); !why.empty()) return fail(path + ": " + why);
    impl->pe_bytes = std::move(file);
    TRY(impl->pe, image::PeFile::parse(impl->pe_bytes->bytes()));
    return ImageSymbols(std::move(impl));
  }
  TRY(impl->elf, ElfFile::open(path));
  return ImageSymbols(std::move(impl));
}

Result<ImageSymbols> ImageSymbols::of_vdso() {
  TRY(process::Maps maps, process::Maps::of(::getpid()));
  const process::Mapping* vdso = maps.find_path("[vdso]");
  if (vdso == nullptr) return fail("there is no vdso");
  Bytes bytes(reinterpret_cast<const uint8_t*>(vdso->start.value), vdso->size());
  auto impl = std::make_unique<Impl>();
  impl->path = "[vdso]";
  TRY(impl->elf, ElfFile::from_bytes(bytes, "[vdso]"));
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

std::span<const FunctionSymbol> ImageSymbols::cold_parts() const {
  impl_->load_functions();
  return impl_->cold_parts;
}

const FunctionSymbol* ImageSymbols::cold_part_of(std::string_view function) const {
  impl_->load_functions();
  auto found = impl_->parts_by_parent.find(function);
  return found != impl_->parts_by_parent.end() ? found->second : nullptr;
}

std::span<const FunctionSymbol> ImageSymbols::unnamed_functions() const {
  if (!impl_->unnamed) {
    impl_->unnamed.emplace();
    if (is_elf() && is_stripped()) *impl_->unnamed = find_unnamed_functions(*this, impl_->owned_names);
  }
  return *impl_->unnamed;
}

const FunctionSymbol* ImageSymbols::function_from(ImageAddr address) const {
  if (const FunctionSymbol* function = function_at(address); function != nullptr)
    return function->address == address ? function : nullptr;
  auto unnamed = unnamed_functions();
  auto found = std::ranges::lower_bound(unnamed, address, {}, &FunctionSymbol::address);
  return found != unnamed.end() && found->address == address ? &*found : nullptr;
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
    if (address >= impl_->reach[size_t(at - all.begin())]) break;
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

const FunctionSymbol* ImageSymbols::cold_part_at(ImageAddr address) const {
  auto parts = cold_parts();
  auto after = std::upper_bound(parts.begin(), parts.end(), address,
                                [](ImageAddr a, const FunctionSymbol& part) { return a < part.address; });
  if (after == parts.begin()) return nullptr;
  --after;
  return address - after->address < after->size ? &*after : nullptr;
}

std::optional<FileOffset> ImageSymbols::file_offset(ImageAddr address) const {
  return impl_->pe ? impl_->pe->file_offset(address) : impl_->elf->to_file_offset(address);
}
std::optional<ImageAddr> ImageSymbols::image_address(FileOffset offset) const {
  return impl_->pe ? impl_->pe->rva_of(offset) : impl_->elf->to_image_addr(offset);
}
std::optional<Bytes> ImageSymbols::code_at(ImageAddr address, uint64_t size) const {
  return impl_->pe ? impl_->pe->bytes_at(address, size) : impl_->elf->bytes_at(address, size);
}
bool ImageSymbols::is_executable(ImageAddr address) const {
  if (!impl_->pe) return impl_->elf->is_executable(address);
  const image::PeSection* section = impl_->pe->section_of(address);
  return section != nullptr && section->executable();
}
const image::NativeImage* ImageSymbols::native_image() const {
  return impl_->native_image ? &*impl_->native_image : nullptr;
}
const image::Pclntab* ImageSymbols::pclntab() const {
  impl_->load_functions();
  return impl_->pclntab ? &*impl_->pclntab : nullptr;
}

const image::UnwindEntries& ImageSymbols::unwind_entries() const {
  if (!impl_->unwind_entries) impl_->unwind_entries.emplace(*impl_->elf);
  return *impl_->unwind_entries;
}

std::span<const image::UnwindEntry> ImageSymbols::all_unwind_entries() const {
  (void)unwind_entries();
  return impl_->unwind_entries->all();
}

const image::RelocatedImage& ImageSymbols::relocated() const {
  if (!impl_->relocated) impl_->relocated.emplace(*impl_->elf);
  return *impl_->relocated;
}

bool ImageSymbols::is_fixed() const { return impl_->elf && impl_->elf->header().e_type == ET_EXEC; }

const image::dwarf::DebugInfo& ImageSymbols::debug_info() const {
  if (!impl_->debug_info && !impl_->elf)
    impl_->debug_info = image::dwarf::DebugInfo::none("a .NET image has no DWARF debug info");
  if (!impl_->debug_info) {
    auto info = image::dwarf::DebugInfo::open(*impl_->elf, impl_->root, impl_->debug_folders);
    if (!info) {
      impl_->problems.push_back(info.error().message());
      info = image::dwarf::DebugInfo::none(impl_->problems.back());
    }
    impl_->debug_info = std::move(*info);
  }
  return *impl_->debug_info;
}

image::Language ImageSymbols::language() const {
  if (!impl_->language) {
    image::Language language = image::Language::C;
    bool is_rust = false;
    for (const FunctionSymbol& function : functions()) {
      if ((is_rust = is_rust_name(function.name))) break;
      if (function.name.starts_with("_Z")) language = image::Language::Cpp;
    }
    if (impl_->native_image)
      language = image::Language::DotNet;
    else if (!go_version().empty())
      language = image::Language::Go;
    else if (is_rust)
      language = image::Language::Rust;
    impl_->language = language;
  }
  return *impl_->language;
}

const std::string& ImageSymbols::go_version() const {
  impl_->load_functions();
  return impl_->go_version;
}

}  // namespace uscope::symbols
