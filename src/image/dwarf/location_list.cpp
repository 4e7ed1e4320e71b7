#include "image/dwarf/location_list.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/file.h"

namespace uscope::image::dwarf {
namespace {

// One element of a list. A visitor that returns true has seen enough.
struct Listed {
  uint64_t low = 0, high = 0;
  Bytes expression;
  std::optional<uint64_t> view;  // of its begin, where the list itself has it

  bool holds(uint64_t address) const { return low <= address && address < high; }
};

template <typename Visit>
void walk4(const Unit& unit, Bytes section, uint64_t offset, Visit&& visit) {
  if (offset >= section.size()) return;
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  while (reader) {
    uint64_t low = reader.u64(), high = reader.u64();
    if (!reader || (low == 0 && high == 0)) return;
    if (low == UINT64_MAX) {
      base = high;
      continue;
    }
    Bytes expression = reader.take(reader.u16());
    if (reader && visit(Listed{base + low, base + high, expression, {}})) return;
  }
}

// GNU's own encoding in .debug_loc.dwo, before DWARF 5 made another.
template <typename Visit>
void walk_gnu_split(const Unit& unit, Bytes section, uint64_t offset, Visit&& visit) {
  if (offset >= section.size()) return;
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
        return;
    }
    Bytes expression = reader.take(reader.u16());
    if (reader && visit(Listed{low, high, expression, {}})) return;
  }
}

template <typename Visit>
void walk5(const Unit& unit, Bytes section, uint64_t offset, Visit&& visit) {
  if (offset >= section.size()) return;
  ByteReader reader(section, offset);
  uint64_t base = unit.base_address();
  std::optional<Bytes> otherwise;
  std::optional<uint64_t> view;
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
        view = reader.uleb128();
        reader.uleb128();
        continue;
      default:  // end of list, or nonsense
        if (otherwise) visit(Listed{0, UINT64_MAX, *otherwise, {}});
        return;
    }
    Bytes expression = reader.take(reader.uleb128());
    if (reader && visit(Listed{low, high, expression, view})) return;
    view = {};
  }
}

// Nothing if the list cannot be found.
std::optional<uint64_t> offset_of_list(const Unit& unit, const Attr& attr, Bytes section) {
  if (attr.form != DW_FORM_loclistx) return attr.value;
  uint64_t base = unit.facts().loclists_base;
  if (attr.value > section.size() || base > section.size()) return {};
  auto entry = slice(section, base + attr.value * unit.offset_size, unit.offset_size);
  if (!entry) return {};
  return base + ByteReader(*entry).unsigned_of(unit.offset_size);
}

Bytes section_of_lists(const Unit& unit) {
  return unit.file->section(unit.version < 5 ? SectionId::Loc : SectionId::LocLists);
}

template <typename Visit>
void walk(const Unit& unit, const Attr& attr, Visit&& visit) {
  Bytes section = section_of_lists(unit);
  auto offset = offset_of_list(unit, attr, section);
  if (!offset) return;
  if (unit.version >= 5) return walk5(unit, section, *offset, visit);
  unit.skeleton ? walk_gnu_split(unit, section, *offset, visit) : walk4(unit, section, *offset, visit);
}

// The view that the list's element of this number begins at, from the pairs of DW_AT_GNU_locviews.
uint64_t view_of(const Unit& unit, const Attr& views, size_t number) {
  Bytes section = section_of_lists(unit);
  if (views.value >= section.size()) return 0;
  ByteReader reader(section, views.value);
  for (size_t i = 0; i < number; i++) {
    reader.uleb128();
    reader.uleb128();
  }
  uint64_t view = reader.uleb128();
  return reader ? view : 0;
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
  std::optional<FoundExpression> found;
  walk(unit, attr, [&](const Listed& element) {
    if (element.holds(address)) found = FoundExpression{element.expression, true};
    return found.has_value();
  });
  return found;
}

std::optional<FoundExpression> expression_passed(const Die& holder, const Attr& attr, uint64_t entry) {
  const Unit& unit = *holder.unit;
  if (attr.is_block() || !is_location_list(unit, attr)) return expression_at(unit, attr, entry);
  std::optional<Listed> first;
  size_t number = 0;
  walk(unit, attr, [&](const Listed& element) {
    if (element.low == entry || element.holds(entry)) first = element;
    if (!first) number++;
    return first.has_value();
  });
  if (!first) return {};
  auto views = holder.attr(DW_AT_GNU_locviews);
  if (!first->view && views) first->view = view_of(unit, *views, number);
  if (first->view.value_or(0) != 0) return {};
  return FoundExpression{first->expression, true};
}

}  // namespace uscope::image::dwarf
