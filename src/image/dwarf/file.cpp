#include "image/dwarf/file.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/store.h"

namespace uscope::image::dwarf {
namespace {
// More units than any program has; a hostile file can claim one for every 11 bytes.
constexpr size_t max_units = 4'000'000;
constexpr uint64_t max_joined_bytes = uint64_t(1) << 30;

// A .dwo file is a relocatable one: each of its type units is in a section of its own, all of one name.
SectionData join(const std::vector<SectionData>& parts, uint64_t size) {
  auto buffer = std::make_unique_for_overwrite<uint8_t[]>(size);
  uint64_t at = 0;
  for (const SectionData& part : parts) {
    std::copy(part.bytes.begin(), part.bytes.end(), buffer.get() + at);
    at += part.bytes.size();
  }
  SectionData joined;
  joined.owned = OwnedBytes(std::move(buffer), size);
  joined.bytes = joined.owned.bytes();
  return joined;
}
}  // namespace

std::string_view section_name(SectionId id) {
  static constexpr std::string_view names[] = {
      ".debug_info",     ".debug_types",       ".debug_abbrev",   ".debug_str",
      ".debug_line_str", ".debug_str_offsets", ".debug_addr",     ".debug_loc",
      ".debug_loclists", ".debug_ranges",      ".debug_rnglists", ".debug_line",
      ".debug_aranges",  ".debug_frame",       ".debug_cu_index", ".debug_tu_index"};
  return names[size_t(id)];
}

Bytes SectionSet::get(SectionId id) const {
  Slot& slot = slots_[size_t(id)];
  if (slot.loaded || !elf_) return slot.data.bytes;
  slot.loaded = true;
  std::string name(section_name(id));
  bool is_index = id == SectionId::CuIndex || id == SectionId::TuIndex;
  if (split_ && !is_index) name += ".dwo";
  std::vector<SectionData> parts;
  uint64_t total = 0;
  for (const Section& section : elf_->sections()) {
    bool is_old_compressed = section.name.starts_with(".z") && section.name.substr(2) == name.substr(1);
    if (section.name != name && !is_old_compressed) continue;
    // Debug info shrinks to a fifth, rarely to a twentieth: more than this is a trap.
    auto data = elf_->read_section(section, (uint64_t(64) << 20) + 32 * section.size);
    if (!data) {
      problems_.push_back(elf_->path() + ": " + data.error().message());
      continue;
    }
    total += data->bytes.size();
    parts.push_back(std::move(*data));
    if (!split_ || total > max_joined_bytes) break;
  }
  if (parts.size() == 1) slot.data = std::move(parts.front());
  if (parts.size() > 1) slot.data = join(parts, total);
  return slot.data.bytes;
}

void SectionSet::set(SectionId id, Bytes bytes) {
  Slot& slot = slots_[size_t(id)];
  slot.loaded = true;
  slot.data = SectionData{bytes, {}};
}

std::unique_ptr<Unit> File::read_unit(Bytes section, uint64_t offset, bool in_types) const {
  ByteReader reader(section, offset);
  auto unit = std::make_unique<Unit>();
  unit->file = const_cast<File*>(this);
  unit->in_types = in_types;
  unit->offset = offset;
  unit->skeleton = skeleton;
  uint64_t length = reader.u32();
  if (length == 0xffffffff) {
    length = reader.u64();
    unit->offset_size = 8;
  }
  if (!reader || length > reader.remaining()) return nullptr;
  unit->end = reader.position() + length;
  unit->version = reader.u16();
  unit->type = in_types ? DW_UT_type : DW_UT_compile;
  uint8_t address_size = 0;
  if (unit->version >= 5) {
    unit->type = reader.u8();
    address_size = reader.u8();
    unit->abbrev_offset = reader.unsigned_of(unit->offset_size);
  } else {
    unit->abbrev_offset = reader.unsigned_of(unit->offset_size);
    address_size = reader.u8();
  }
  unit->is_type_unit = unit->type == DW_UT_type || unit->type == DW_UT_split_type;
  if (unit->is_type_unit || unit->type == DW_UT_skeleton || unit->type == DW_UT_split_compile) {
    unit->signature = reader.u64();
  }
  if (unit->is_type_unit) unit->type_offset = offset + reader.unsigned_of(unit->offset_size);
  unit->die_offset = reader.position();
  if (!reader || unit->die_offset > unit->end) unit->die_offset = unit->end;
  if (unit->version < 2 || unit->version > 5 || address_size != 8) {
    unit->die_offset = unit->end;  // keeps its place, but has nothing to read
    store->problem(path + ": a unit is of DWARF version " + std::to_string(unit->version) + " with " +
                   std::to_string(address_size) + "-byte addresses, which is not read");
  }
  return unit;
}

std::vector<std::unique_ptr<Unit>> File::read_units(SectionId id) const {
  std::vector<std::unique_ptr<Unit>> units;
  Bytes bytes = section(id);
  for (const std::string& problem : sections.problems()) store->problem(problem);
  uint64_t offset = 0;
  while (offset < bytes.size() && units.size() < max_units) {
    auto unit = read_unit(bytes, offset, id == SectionId::Types);
    if (!unit) {
      store->problem(path + ": " + std::string(section_name(id)) +
                     " is cut short or broken; what lies behind is not read");
      break;
    }
    offset = unit->end;
    units.push_back(std::move(unit));
  }
  return units;
}

const std::vector<std::unique_ptr<Unit>>& File::units() const {
  if (!units_) units_ = read_units(SectionId::Info);
  return *units_;
}

const std::vector<std::unique_ptr<Unit>>& File::type_section_units() const {
  if (!type_units_) type_units_ = read_units(SectionId::Types);
  return *type_units_;
}

const Unit* File::unit_at(uint64_t section_offset, bool in_types) const {
  const auto& list = in_types ? type_section_units() : units();
  auto after = std::upper_bound(list.begin(), list.end(), section_offset,
                                [](uint64_t offset, const auto& unit) { return offset < unit->offset; });
  if (after == list.begin()) return nullptr;
  const Unit* unit = std::prev(after)->get();
  return section_offset < unit->end ? unit : nullptr;
}

const Unit* File::type_unit(uint64_t signature) const {
  if (!signatures_) {
    signatures_.emplace();
    for (const auto* list : {&units(), &type_section_units()}) {
      for (const auto& unit : *list) {
        if (unit->is_type_unit) signatures_->emplace(unit->signature, unit.get());
      }
    }
  }
  auto found = signatures_->find(signature);
  return found == signatures_->end() ? nullptr : found->second;
}

std::shared_ptr<const AbbrevTable> File::abbrevs(uint64_t offset) const {
  auto& table = abbrevs_[offset];
  if (table) return table;
  Bytes bytes = section(SectionId::Abbrev);
  // Tables do not overlap in honest files; where they do, reading one for every unit could take for ever.
  if (abbrev_bytes_read_ > 4 * bytes.size()) {
    store->problem(path + ": .debug_abbrev has overlapping tables; some units are not read");
    table = std::make_shared<AbbrevTable>();
    return table;
  }
  table = std::make_shared<AbbrevTable>(AbbrevTable::parse(bytes, offset));
  abbrev_bytes_read_ += table->bytes_read();
  return table;
}

void File::forget(const Unit& unit) const {
  unit.index_.reset();
  unit.abbrevs_.reset();
  auto table = abbrevs_.find(unit.abbrev_offset);
  if (table == abbrevs_.end() || table->second.use_count() > 1) return;
  abbrev_bytes_read_ -= std::min(abbrev_bytes_read_, table->second->bytes_read());
  abbrevs_.erase(table);
}

}  // namespace uscope::image::dwarf
