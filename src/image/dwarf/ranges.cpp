#include "image/dwarf/ranges.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/file.h"

namespace uscope::image::dwarf {
namespace {

using Visit = std::function<void(uint64_t, uint64_t)>;

void read_ranges4(const Unit& unit, Bytes section, uint64_t offset, const Visit& visit) {
  if (offset >= section.size()) return;
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  while (reader) {
    uint64_t low = reader.u64(), high = reader.u64();
    if (!reader || (low == 0 && high == 0)) return;
    if (low == UINT64_MAX) {
      base = high;
    } else if (low < high) {
      visit(base + low, base + high);
    }
  }
}

void read_ranges5(const Unit& unit, Bytes section, uint64_t offset, const Visit& visit) {
  if (offset >= section.size()) return;
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  auto indexed = [&](uint64_t index) { return unit.address_by_index(index).value_or(0); };
  while (reader) {
    uint64_t low = 0, high = 0;
    switch (reader.u8()) {
      case DW_RLE_base_addressx:
        base = indexed(reader.uleb128());
        continue;
      case DW_RLE_startx_endx:
        low = indexed(reader.uleb128());
        high = indexed(reader.uleb128());
        break;
      case DW_RLE_startx_length:
        low = indexed(reader.uleb128());
        high = low + reader.uleb128();
        break;
      case DW_RLE_offset_pair:
        low = base + reader.uleb128();
        high = base + reader.uleb128();
        break;
      case DW_RLE_base_address:
        base = reader.u64();
        continue;
      case DW_RLE_start_end:
        low = reader.u64();
        high = reader.u64();
        break;
      case DW_RLE_start_length:
        low = reader.u64();
        high = low + reader.uleb128();
        break;
      default:  // end of list, or nonsense
        return;
    }
    if (reader && low < high) visit(low, high);
  }
}

void read_range_list(const Die& die, const Attr& attr, const Visit& visit) {
  const Unit& unit = *die.unit;
  const File& file = *unit.file;
  if (unit.version >= 5) {
    uint64_t offset = attr.value;
    if (attr.form == DW_FORM_rnglistx) {
      uint64_t base = unit.facts().rnglists_base;
      Bytes section = file.section(SectionId::RngLists);
      if (attr.value > section.size()) return;
      ByteReader reader(section, std::min<uint64_t>(base + attr.value * unit.offset_size, section.size()));
      offset = base + reader.unsigned_of(unit.offset_size);
      if (!reader) return;
    }
    read_ranges5(unit, file.section(SectionId::RngLists), offset, visit);
    return;
  }
  // A DWARF 4 split unit's lists stay in the image, counted from the skeleton's base.
  if (unit.skeleton) {
    read_ranges4(unit, unit.skeleton->file->section(SectionId::Ranges),
                 unit.skeleton->facts().ranges_base + attr.value, visit);
  } else {
    read_ranges4(unit, file.section(SectionId::Ranges), attr.value, visit);
  }
}

}  // namespace

bool for_each_range(const Die& die, const Visit& visit) {
  auto low = die.attr(DW_AT_low_pc);
  auto high = die.attr(DW_AT_high_pc);
  if (low && high) {
    auto begin = die.unit->address(*low);
    auto end = high->is_address() ? die.unit->address(*high) : std::optional(begin.value_or(0) + high->value);
    if (begin && end && *begin < *end) visit(*begin, *end);
    return true;
  }
  auto ranges = die.attr(DW_AT_ranges);
  if (!ranges) return false;
  read_range_list(die, *ranges, visit);
  return true;
}

std::optional<uint64_t> entry_of(const Die& die) {
  if (auto entry = die.attr(DW_AT_entry_pc); entry && entry->is_address()) {
    if (auto address = die.unit->address(*entry)) return address;
  }
  if (auto low = die.attr(DW_AT_low_pc)) return die.unit->address(*low);
  // The first range listed is the main part; compilers put `.cold` parts after it.
  std::optional<uint64_t> first;
  auto ranges = die.attr(DW_AT_ranges);
  if (!ranges) return {};
  for_each_range(die, [&](uint64_t low, uint64_t) {
    if (!first) first = low;
  });
  if (auto entry = die.attr(DW_AT_entry_pc); entry && entry->is_constant() && first) {
    return *first + entry->value;
  }
  return first;
}

}  // namespace uscope::image::dwarf
