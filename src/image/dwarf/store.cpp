#include "image/dwarf/store.h"

#include <dwarf.h>

#include <algorithm>
#include <filesystem>

#include "image/dwarf/ranges.h"

namespace uscope::image::dwarf {
namespace {

constexpr size_t max_problems = 200;
// Each split or packaged unit is a file here; a hostile index can name one for every 12 bytes.
constexpr size_t max_files = 200'000;

}  // namespace

Store::Store(const ElfFile& image, const ElfFile& debug, std::string root)
    : image_(image), debug_(debug), root_(std::move(root)) {
  File& main = add_file(debug.path());
  // Opened directly, a .dwo file has only the sections of that name.
  bool is_dwo = !debug.find_section(".debug_info") && !debug.find_section(".zdebug_info") &&
                debug.find_section(".debug_info.dwo");
  main.sections = SectionSet(&debug_, is_dwo);
}

File& Store::add_file(std::string path) {
  auto file = std::make_unique<File>();
  file->store = this;
  file->index = uint32_t(files_.size());
  file->path = std::move(path);
  files_.push_back(std::move(file));
  return *files_.back();
}

const File* Store::file(uint32_t index) const {
  return index < files_.size() ? files_[index].get() : nullptr;
}

void Store::problem(std::string what) const {
  if (problems_.size() < max_problems && said_.insert(what).second) problems_.push_back(std::move(what));
}

void Store::set_alt(const std::string& path) {
  auto elf = ElfFile::open(path);
  if (!elf) {
    problem(elf.error().message());
    return;
  }
  elves_.push_back(std::make_unique<ElfFile>(std::move(*elf)));
  File& alt = add_file(path);
  alt.sections = SectionSet(elves_.back().get(), false);
  main().alt = &alt;
}

void Store::set_package(const std::string& path) {
  auto package = Package::open(path);
  if (package) {
    package_ = std::move(*package);
  } else {
    problem(package.error().message());
  }
}

// --- split units -------------------------------------------------------------------------------------------

const Unit* Store::full_unit(const Unit& unit) const {
  const UnitFacts& facts = unit.facts();
  if (facts.dwo_name.empty() || !facts.dwo_id || unit.skeleton) return &unit;
  // A whole unit may still carry the name of the .dwo file it was meant for.
  if (unit.type != DW_UT_skeleton && unit.root().has_children()) return &unit;
  auto [found, is_new] = split_.emplace(&unit, nullptr);
  if (!is_new) return found->second;
  const Unit* split = files_.size() < max_files ? open_split(unit) : nullptr;
  split_[&unit] = split;
  return split;
}

const Unit* Store::open_split(const Unit& skeleton) const {
  uint64_t id = *skeleton.facts().dwo_id;
  if (package_) {
    if (const Unit* unit = open_packaged(skeleton, id)) return unit;
  }
  return open_dwo_file(skeleton, id);
}

const Unit* Store::open_packaged(const Unit& skeleton, uint64_t id) const {
  auto sections = package_->compile_unit(id);
  if (!sections) return nullptr;
  File& file = const_cast<Store*>(this)->add_file(package_->path());
  file.sections = std::move(*sections);
  file.skeleton = &skeleton;
  return file.units().empty() ? nullptr : file.units().front().get();
}

const Unit* Store::open_dwo_file(const Unit& skeleton, uint64_t id) const {
  namespace fs = std::filesystem;
  const UnitFacts& facts = skeleton.facts();
  fs::path name(facts.dwo_name);
  fs::path near = fs::path(image_.path()).parent_path();
  std::vector<std::string> candidates;
  if (name.is_absolute()) {
    candidates.push_back(root_ + name.string());
  } else {
    candidates.push_back(root_ + (fs::path(facts.directory) / name).string());
    candidates.push_back((near / name).string());
  }
  candidates.push_back((near / name.filename()).string());
  bool other_build = false;
  for (const std::string& path : candidates) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) continue;
    auto elf = ElfFile::open(path);
    if (!elf) {
      problem(elf.error().message());
      continue;
    }
    elves_.push_back(std::make_unique<ElfFile>(std::move(*elf)));
    File& file = const_cast<Store*>(this)->add_file(path);
    file.sections = SectionSet(elves_.back().get(), true);
    file.skeleton = &skeleton;
    for (const auto& unit : file.units()) {
      if (!unit->is_type_unit && unit->facts().dwo_id == id) return unit.get();
    }
    other_build = true;
  }
  problem(
      (fs::path(facts.directory) / name).string() +
      (other_build ? ": the split debug info is of another build; " : ": the split debug info is missing; ") +
      "its functions have names and addresses only");
  return nullptr;
}

const Unit* Store::type_unit(uint64_t signature, const File& from) const {
  if (const Unit* unit = from.type_unit(signature)) return unit;
  if (!from.skeleton || !package_) {
    return &from == &main() ? nullptr : main().type_unit(signature);
  }
  return packaged_type(signature, from.skeleton);
}

const Unit* Store::packaged_type(uint64_t signature, const Unit* skeleton) const {
  auto [found, is_new] = packaged_types_.emplace(signature, nullptr);
  if (!is_new) return found->second;
  auto sections = package_->type_unit(signature);
  if (!sections || files_.size() >= max_files) return nullptr;
  File& file = const_cast<Store*>(this)->add_file(package_->path());
  file.sections = std::move(*sections);
  file.skeleton = skeleton;
  const Unit* unit = file.type_unit(signature);
  packaged_types_[signature] = unit;
  return unit;
}

void Store::for_each_unit(const std::function<bool(const Unit&)>& visit) const {
  const Unit* a_skeleton = nullptr;
  for (const auto* list : {&main().units(), &main().type_section_units()}) {
    for (const auto& unit : *list) {
      const Unit* full = full_unit(*unit);
      if (!full) continue;
      if (!visit(*full)) return;
      if (full == unit.get()) continue;
      // A .dwo file has its type units beside the split unit.
      a_skeleton = unit.get();
      for (const auto* beside : {&full->file->units(), &full->file->type_section_units()}) {
        for (const auto& type : *beside) {
          if (type->is_type_unit && !visit(*type)) return;
        }
      }
    }
  }
  if (package_ && a_skeleton) {
    for (uint64_t signature : package_->type_signatures()) {
      const Unit* type = packaged_type(signature, a_skeleton);
      if (type && !visit(*type)) return;
    }
  }
  if (main().alt) {
    for (const auto& unit : main().alt->units()) {
      if (!visit(*unit)) return;
    }
  }
}

// --- addresses ---------------------------------------------------------------------------------------------

bool Store::is_code(uint64_t address) const {
  // The linker leaves 0, 1 or -1 (plus an offset) in the place of functions it dropped.
  if (image_.loads().empty()) return address != 0;
  for (const Segment& segment : image_.loads()) {
    if (segment.is_executable() && ImageAddr{address} >= segment.address &&
        ImageAddr{address} - segment.address < segment.memory_size) {
      return true;
    }
  }
  return false;
}

namespace {

uint64_t symbol_hash(uint64_t address, std::string_view name) {
  return std::hash<std::string_view>{}(name)*31 + address;
}

void add_global_functions(const ElfFile& elf, std::unordered_set<uint64_t>& symbols) {
  for (const Section& section : elf.sections()) {
    if (section.type != SHT_SYMTAB && section.type != SHT_DYNSYM) continue;
    if (section.link >= elf.sections().size()) continue;
    Bytes names = elf.stored_bytes(elf.sections()[section.link]);
    ByteReader reader(elf.stored_bytes(section));
    while (reader.remaining() >= sizeof(Elf64_Sym)) {
      auto symbol = reader.read<Elf64_Sym>();
      bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
      if (!is_function || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      symbols.insert(symbol_hash(symbol.st_value, cstring_at(names, symbol.st_name)));
    }
  }
}

}  // namespace

bool Store::has_global_symbol(uint64_t address, std::string_view name) const {
  if (!global_symbols_) {
    global_symbols_.emplace();
    add_global_functions(image_, *global_symbols_);
    if (&debug_ != &image_) add_global_functions(debug_, *global_symbols_);
  }
  return global_symbols_->contains(symbol_hash(address, name));
}

namespace {

// .debug_aranges, as far as it makes sense: calls visit(low, high, unit offset).
void read_aranges(Bytes section, const std::function<void(uint64_t, uint64_t, uint64_t)>& visit) {
  uint64_t position = 0;
  while (position < section.size()) {
    ByteReader reader(section, position);
    uint64_t length = reader.u32();
    unsigned offset_size = 4;
    if (length == 0xffffffff) {
      length = reader.u64();
      offset_size = 8;
    }
    if (!reader || length > reader.remaining()) return;
    uint64_t end = reader.position() + length;
    uint16_t version = reader.u16();
    uint64_t unit = reader.unsigned_of(offset_size);
    uint8_t address_size = reader.u8(), segment_size = reader.u8();
    uint64_t header = reader.position() - position;
    reader.skip((16 - header % 16) % 16);
    bool readable = version == 2 && address_size == 8 && segment_size == 0;
    while (readable && reader && reader.position() + 16 <= end) {
      uint64_t low = reader.u64(), size = reader.u64();
      if (low == 0 && size == 0) break;
      if (size != 0 && low + size > low) visit(low, low + size, unit);
    }
    position = end;
  }
}

}  // namespace

void Store::index_addresses(bool with_aranges) const {
  std::vector<UnitRange> ranges;
  std::unordered_set<const Unit*> listed;
  if (with_aranges) {
    const Unit* unit = nullptr;
    read_aranges(main().section(SectionId::Aranges), [&](uint64_t low, uint64_t high, uint64_t offset) {
      if (!unit || unit->offset != offset) unit = main().unit_at(offset);
      if (!unit || unit->offset != offset || !is_code(low)) return;
      ranges.push_back({low, high, 0, unit});
    });
  } else {
    for (const auto& unit : main().units()) {
      if (unit->is_type_unit) continue;
      for_each_range(unit->root(), [&](uint64_t low, uint64_t high) {
        if (is_code(low)) ranges.push_back({low, high, 0, unit.get()});
      });
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const UnitRange& a, const UnitRange& b) { return a.low < b.low; });
  uint64_t highest = 0;
  for (UnitRange& range : ranges) range.highest_so_far = highest = std::max(highest, range.high);
  (with_aranges ? aranges_ : ranges_) = std::move(ranges);
}

const Unit* Store::look_up(const std::vector<UnitRange>& ranges, uint64_t address) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](uint64_t at, const UnitRange& range) { return at < range.low; });
  while (after != ranges.begin()) {
    --after;
    if (address < after->high) return after->unit;
    if (after->highest_so_far <= address) return nullptr;
  }
  return nullptr;
}

const Unit* Store::skeleton_or_unit_for(uint64_t address) const {
  if (!aranges_) index_addresses(true);
  if (const Unit* unit = look_up(*aranges_, address)) return unit;
  // Not every compiler writes .debug_aranges, and objects of several may be linked together.
  if (!ranges_) index_addresses(false);
  return look_up(*ranges_, address);
}

const Unit* Store::unit_for(uint64_t address) const {
  const Unit* unit = skeleton_or_unit_for(address);
  return unit ? full_unit(*unit) : nullptr;
}

}  // namespace uscope::image::dwarf
