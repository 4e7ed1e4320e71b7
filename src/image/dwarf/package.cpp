#include "image/dwarf/package.h"

namespace uscope::image::dwarf {
namespace {

struct IndexHeader {
  uint32_t version = 0, columns = 0, units = 0, slots = 0;
};

// Which section a column stands for; the numbering changed between GNU's extension and DWARF 5.
std::optional<SectionId> column_section(uint32_t id, uint32_t version) {
  switch (id) {
    case 1:
      return SectionId::Info;
    case 2:
      return version == 2 ? std::optional(SectionId::Types) : std::nullopt;
    case 3:
      return SectionId::Abbrev;
    case 4:
      return SectionId::Line;
    case 5:
      return version == 2 ? SectionId::Loc : SectionId::LocLists;
    case 6:
      return SectionId::StrOffsets;
    case 8:
      return version == 2 ? std::nullopt : std::optional(SectionId::RngLists);
    default:
      return {};
  }
}

std::optional<IndexHeader> read_header(ByteReader& reader) {
  IndexHeader header{reader.u32(), reader.u32(), reader.u32(), reader.u32()};
  header.version &= 0xffff;  // DWARF 5: two bytes, then padding
  bool sane = reader && (header.version == 2 || header.version == 5) && header.columns <= 16 &&
              header.slots != 0 && (header.slots & (header.slots - 1)) == 0;
  return sane ? std::optional(header) : std::nullopt;
}

// The row of a unit, counted from 1; 0 if it is not there.
uint32_t find_row(Bytes table, const IndexHeader& header, uint64_t id) {
  uint64_t mask = header.slots - 1;
  uint64_t slot = id & mask, step = ((id >> 32) & mask) | 1;
  for (uint64_t probes = 0; probes < header.slots; probes++) {
    ByteReader key(table, std::min<uint64_t>(16 + slot * 8, table.size()));
    ByteReader row(table, std::min<uint64_t>(16 + uint64_t(header.slots) * 8 + slot * 4, table.size()));
    uint64_t found = key.u64();
    uint32_t index = row.u32();
    if (!key || !row || index == 0) return 0;
    if (found == id) return index;
    slot = (slot + step) & mask;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<Package>> Package::open(const std::string& path) {
  TRY(auto elf, ElfFile::open(path));
  return std::make_unique<Package>(std::move(elf));
}

std::optional<SectionSet> Package::compile_unit(uint64_t id) const { return find(SectionId::CuIndex, id); }
std::optional<SectionSet> Package::type_unit(uint64_t signature) const {
  return find(SectionId::TuIndex, signature);
}

std::vector<uint64_t> Package::type_signatures() const {
  std::vector<uint64_t> signatures;
  Bytes table = sections_.get(SectionId::TuIndex);
  ByteReader reader(table);
  auto header = read_header(reader);
  if (!header) return signatures;
  for (uint64_t slot = 0; slot < header->slots; slot++) {
    auto key = slice(table, 16 + slot * 8, 8);
    auto row = slice(table, 16 + uint64_t(header->slots) * 8 + slot * 4, 4);
    if (!key || !row) break;
    if (ByteReader(*row).u32() != 0) signatures.push_back(ByteReader(*key).u64());
  }
  return signatures;
}

std::optional<SectionSet> Package::find(SectionId index, uint64_t id) const {
  Bytes table = sections_.get(index);
  ByteReader reader(table);
  auto header = read_header(reader);
  if (!header) return {};
  uint32_t row = find_row(table, *header, id);
  if (row == 0 || row > header->units) return {};

  uint64_t ids = 16 + uint64_t(header->slots) * 12;
  uint64_t row_size = uint64_t(header->columns) * 4;
  auto word = [&](uint64_t position) {
    auto bytes = slice(table, position, 4);
    return bytes ? std::optional(ByteReader(*bytes).u32()) : std::nullopt;
  };
  SectionSet result;
  for (uint32_t column = 0; column < header->columns; column++) {
    auto section_code = word(ids + column * 4);
    auto offset = word(ids + row * row_size + column * 4);
    auto size = word(ids + (row + uint64_t(header->units)) * row_size + column * 4);
    if (!section_code || !offset || !size) return {};
    auto section = column_section(*section_code, header->version);
    if (!section) continue;
    auto part = slice(sections_.get(*section), *offset, *size);
    if (!part) return {};
    result.set(*section, *part);
  }
  result.set(SectionId::Str, sections_.get(SectionId::Str));
  return result;
}

}  // namespace uscope::image::dwarf
