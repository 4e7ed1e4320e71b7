#include "image/dwarf/location_list.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/file.h"

namespace uscope::image::dwarf {
namespace {

std::optional<Bytes> search4(const Unit& unit, Bytes section, uint64_t offset, uint64_t address) {
  if (offset >= section.size()) return {};
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  while (reader) {
    uint64_t low = reader.u64(), high = reader.u64();
    if (!reader || (low == 0 && high == 0)) return {};
    if (low == UINT64_MAX) {
      base = high;
      continue;
    }
    Bytes expression = reader.take(reader.u16());
    if (reader && base + low <= address && address < base + high) return expression;
  }
  return {};
}

// GNU's own encoding in .debug_loc.dwo, before DWARF 5 made another.
std::optional<Bytes> search_gnu_split(const Unit& unit, Bytes section, uint64_t offset, uint64_t address) {
  if (offset >= section.size()) return {};
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  auto indexed = [&](uint64_t index) { return unit.address_by_index(index).value_or(0); };
  while (reader) {
    uint64_t low = 0, high = 0;
    switch (reader.u8()) {
      case DW_LLE_GNU_base_address_selection_entry:
        base = indexed(reader.uleb128());
        continue;
      case DW_LLE_GNU_start_end_entry:
        low = indexed(reader.uleb128());
        high = indexed(reader.uleb128());
        break;
      case DW_LLE_GNU_start_length_entry:
        low = indexed(reader.uleb128());
        high = low + reader.u32();
        break;
      case 4:  // offset pair
        low = base + reader.u32();
        high = base + reader.u32();
        break;
      default:
        return {};
    }
    Bytes expression = reader.take(reader.u16());
    if (reader && low <= address && address < high) return expression;
  }
  return {};
}

std::optional<Bytes> search5(const Unit& unit, Bytes section, uint64_t offset, uint64_t address) {
  if (offset >= section.size()) return {};
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  std::optional<Bytes> otherwise;
  auto indexed = [&](uint64_t index) { return unit.address_by_index(index).value_or(0); };
  while (reader) {
    uint64_t low = 0, high = 0;
    switch (reader.u8()) {
      case DW_LLE_base_addressx:
        base = indexed(reader.uleb128());
        continue;
      case DW_LLE_startx_endx:
        low = indexed(reader.uleb128());
        high = indexed(reader.uleb128());
        break;
      case DW_LLE_startx_length:
        low = indexed(reader.uleb128());
        high = low + reader.uleb128();
        break;
      case DW_LLE_offset_pair:
        low = base + reader.uleb128();
        high = base + reader.uleb128();
        break;
      case DW_LLE_default_location:
        otherwise = reader.take(reader.uleb128());
        continue;
      case DW_LLE_base_address:
        base = reader.u64();
        continue;
      case DW_LLE_start_end:
        low = reader.u64();
        high = reader.u64();
        break;
      case DW_LLE_start_length:
        low = reader.u64();
        high = low + reader.uleb128();
        break;
      case DW_LLE_GNU_view_pair:
        reader.uleb128();
        reader.uleb128();
        continue;
      default:  // end of list, or nonsense
        return otherwise;
    }
    Bytes expression = reader.take(reader.uleb128());
    if (reader && low <= address && address < high) return expression;
  }
  return {};
}

std::optional<Bytes> search(const Unit& unit, const Attr& attr, uint64_t address) {
  const File& file = *unit.file;
  if (unit.version < 5) {
    Bytes section = file.section(SectionId::Loc);
    return unit.skeleton ? search_gnu_split(unit, section, attr.value, address)
                         : search4(unit, section, attr.value, address);
  }
  Bytes section = file.section(SectionId::LocLists);
  uint64_t offset = attr.value;
  if (attr.form == DW_FORM_loclistx) {
    uint64_t base = unit.facts().loclists_base;
    if (attr.value > section.size() || base > section.size()) return {};
    auto entry = slice(section, base + attr.value * unit.offset_size, unit.offset_size);
    if (!entry) return {};
    offset = base + ByteReader(*entry).unsigned_of(unit.offset_size);
  }
  return search5(unit, section, offset, address);
}

}  // namespace

bool is_location_list(const Unit& unit, const Attr& attr) {
  if (attr.form == DW_FORM_sec_offset || attr.form == DW_FORM_loclistx) return true;
  // DWARF 3 had no form of its own for offsets.
  return unit.version < 4 && (attr.form == DW_FORM_data4 || attr.form == DW_FORM_data8);
}

std::optional<FoundExpression> expression_at(const Unit& unit, const Attr& attr, uint64_t address) {
  if (attr.is_block()) return FoundExpression{attr.block, false};
  if (!is_location_list(unit, attr)) return {};
  auto expression = search(unit, attr, address);
  if (!expression) return {};
  return FoundExpression{*expression, true};
}

}  // namespace uscope::image::dwarf
