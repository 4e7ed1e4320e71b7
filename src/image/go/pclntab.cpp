#include "image/go/pclntab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "image/elf/relocated.h"
#include "image/go/module_data.h"
#include "image/go/pc_values.h"
#include "image/go/pclntab_record.h"

namespace uscope::image {
namespace {

// What the linker puts among the functions to mark places: no code that anybody calls.
bool is_marker(std::string_view name) {
  constexpr std::array<std::string_view, 6> markers = {"runtime.text", "runtime.etext",  "go:textfipsstart",
                                                       "go.buildid",   "go:textfipsend", "go:buildid"};
  return std::ranges::find(markers, name) != markers.end();
}

Bytes table_bytes(const ElfFile& file, const Section& section) {
  Bytes stored = file.stored_bytes(section);
  // Addresses must lead to the same bytes, or the section header lies.
  Bytes loaded = file.bytes_from(section.address);
  return loaded.data() == stored.data() ? stored : Bytes();
}

}  // namespace

std::optional<Pclntab::Header> Pclntab::Header::read(Bytes table) {
  ByteReader reader(table);
  uint32_t magic = reader.u32();
  Header header;
  switch (magic) {
    case 0xfffffffb:
      header.format = PclntabFormat::Go1_2;
      break;
    case 0xfffffffa:
      header.format = PclntabFormat::Go1_16;
      break;
    case 0xfffffff0:
      header.format = PclntabFormat::Go1_18;
      break;
    case 0xfffffff1:
      header.format = PclntabFormat::Go1_20;
      break;
    default:
      return std::nullopt;
  }
  bool padded = reader.u16() == 0;
  header.quantum = reader.u8();
  uint8_t pointer_size = reader.u8();
  if (!padded || pointer_size != 8 || header.quantum != 1) return std::nullopt;
  header.function_count = reader.u64();
  if (header.format == PclntabFormat::Go1_2) {
    header.functions = reader.position();
  } else {
    reader.skip(8);  // the number of files
    if (header.is_offset_based()) header.text_start = reader.u64();
    header.names = reader.u64();
    header.units = reader.u64();
    header.files = reader.u64();
    header.pc_values = reader.u64();
    header.functions = reader.u64();
    std::array<uint64_t, 6> order = {reader.position(), header.names,     header.units,
                                     header.files,      header.pc_values, header.functions};
    if (!std::ranges::is_sorted(order) || header.functions > table.size()) return std::nullopt;
  }
  if (reader.failed() || header.function_count == 0) return std::nullopt;
  // The entries, and the address where the last function ends.
  uint64_t size = header.entry_size();
  if (header.function_count > (table.size() - header.functions) / size) return std::nullopt;
  if (!slice(table, header.functions + header.function_count * size, size / 2)) return std::nullopt;
  if (header.format == PclntabFormat::Go1_2) {
    ByteReader files(table, header.functions + header.function_count * size + 8);
    header.files = files.u32();
    if (files.failed()) return std::nullopt;
  }
  return header;
}

Result<std::optional<Pclntab>> Pclntab::find(const ElfFile& file) {
  for (std::string_view name : {".gopclntab", ".data.rel.ro.gopclntab"}) {
    const Section* section = file.find_section(name);
    if (section == nullptr || !section->has_contents()) continue;
    Bytes table = table_bytes(file, *section);
    auto header = Header::read(table);
    if (!header)
      return fail(
          fmt::format("{}: its {} is damaged or of a Go that uscope does not know", file.path(), name));
    TRY(Pclntab tab, load(file, section->address, table, *header));
    return std::optional<Pclntab>(std::move(tab));
  }
  // Reading all of a large library to find that it is not Go's would take longer than anything else about it.
  bool has_go_section =
      std::any_of(file.sections().begin(), file.sections().end(), [](const Section& section) {
        return section.name.find(".go.") != std::string_view::npos || section.name.starts_with(".gosymtab");
      });
  if (!file.sections().empty() && !has_go_section) return std::optional<Pclntab>();
  // 00 00 01 08: padding, x86's instruction quantum, the size of a pointer. The byte before tells the format.
  constexpr std::string_view pattern("\xff\xff\xff\x00\x00\x01\x08", 7);
  constexpr int most_candidates = 64;
  int candidates = 0;
  for (const Segment& segment : file.loads()) {
    Bytes bytes = file.stored_bytes(segment);
    std::string_view text = as_text(bytes);
    for (size_t at = text.find(pattern); at != std::string_view::npos; at = text.find(pattern, at + 1)) {
      if (at == 0 || (segment.address.value + at - 1) % 8 != 0) continue;
      Bytes table = bytes.subspan(at - 1);
      auto header = Header::read(table);
      if (!header || ++candidates > most_candidates) continue;
      auto tab = load(file, segment.address + (at - 1), table, *header);
      if (tab) return std::optional<Pclntab>(std::move(*tab));
    }
  }
  return std::optional<Pclntab>();
}

Result<Pclntab> Pclntab::load(const ElfFile& file, ImageAddr address, Bytes table, const Header& header) {
  Pclntab tab;
  tab.address_ = address;
  tab.table_ = table;
  tab.header_ = header;
  for (const Segment& segment : file.loads())
    tab.loaded_.emplace_back(segment.address, file.stored_bytes(segment));
  RelocatedImage image(file);
  if (image.changes(address, table.size())) {
    auto copy = std::make_unique_for_overwrite<uint8_t[]>(table.size());
    std::memcpy(copy.get(), table.data(), table.size());
    image.apply(address, {copy.get(), table.size()});
    tab.relocated_ = OwnedBytes(std::move(copy), table.size());
    tab.table_ = tab.relocated_.bytes();
    auto again = Header::read(tab.table_);
    if (!again) return fail(file.path() + ": relocations damage its table of Go functions");
    tab.header_ = *again;
  }
  auto module = find_module_data(image, address, tab.header_);
  if (module) tab.funcdata_base_ = module->funcdata;
  if (tab.header_.is_offset_based()) {
    const Section* text = file.find_section(".text");
    if (module && module->text != 0) {
      tab.header_.text_start = module->text;
    } else if (tab.header_.text_start == 0 && text != nullptr && file.type() == ElfType::StaticExecutable) {
      // Linked by Go alone: its text is the whole of .text.
      tab.header_.text_start = text->address.value;
    }
    if (tab.header_.text_start == 0)
      return fail(file.path() + ": its Go functions have no known start (runtime.text)");
  }
  TRY_STATUS(tab.read_functions(file));
  return tab;
}

Status Pclntab::read_functions(const ElfFile& file) {
  uint64_t count = header_.function_count, damaged = 0;
  // Names may repeat, but not add up to many times the table: see symbols.cpp.
  uint64_t name_budget = (uint64_t(16) << 20) + 8 * table_.size();
  ByteReader reader(table_, header_.functions);
  auto address = [&] { return header_.is_offset_based() ? header_.text_start + reader.u32() : reader.u64(); };
  functions_.reserve(count);
  uint64_t entry = address();
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t record_at = header_.is_offset_based() ? reader.u32() : reader.u64();
    uint64_t next = address();
    if (next < entry || !file.is_executable({entry})) {
      return fail(fmt::format("{}: its table of Go functions is damaged at function {} of {}", file.path(), i,
                              count));
    }
    uint64_t limit = next - entry;
    auto record = read_record(record_at);
    std::string_view name = record ? name_at(uint32_t(record->name)) : std::string_view();
    if (!record || name.empty() || name.size() > name_budget) {
      ++damaged;
    } else if (limit != 0 && !is_marker(name)) {
      name_budget -= name.size();
      functions_.push_back({.name = name,
                            .entry = {entry},
                            .size = exact_size(*record, limit),
                            .start_line = uint32_t(std::max(record->start_line, 0)),
                            .deferreturn = record->deferreturn < limit ? record->deferreturn : 0,
                            .record = record_at});
    }
    entry = next;
  }
  if (functions_.empty()) return fail(file.path() + ": its table of Go functions holds none");
  if (damaged != 0)
    problems_.push_back(fmt::format("{} of {} Go functions have damaged records", damaged, count));
  return {};
}

// `offset` is relative to the function table (Go 1.2: to the whole table).
std::optional<Pclntab::Record> Pclntab::read_record(uint64_t offset) const {
  uint64_t base = header_.format == PclntabFormat::Go1_2 ? 0 : header_.functions;
  if (offset > table_.size() || base + offset > table_.size()) return std::nullopt;
  ByteReader reader(table_, base + offset);
  Record record;
  record.entry = header_.is_offset_based() ? reader.u32() : reader.u64();
  record.name = int32_t(reader.u32());
  reader.skip(4);  // argument size
  record.deferreturn = reader.u32();
  record.frame_sizes = reader.u32();
  record.files = reader.u32();
  record.lines = reader.u32();
  record.pcdata_count = reader.u32();
  if (header_.format >= PclntabFormat::Go1_16) record.unit = reader.u32();
  if (header_.format >= PclntabFormat::Go1_20) record.start_line = int32_t(reader.u32());
  reader.skip(3);  // kind, flags
  record.funcdata_count = reader.u8();
  record.pcdata = reader.position();
  reader.skip(uint64_t(record.pcdata_count) * 4);
  if (!header_.is_offset_based()) reader.align(8);
  record.funcdata = reader.position();
  if (reader.failed() || record.name < 0) return std::nullopt;
  return record;
}

// Every pc-value table ends where the function does; the next function's entry has padding before it.
uint64_t Pclntab::exact_size(const Record& record, uint64_t limit) const {
  for (uint32_t values : {record.frame_sizes, record.files, record.lines}) {
    if (values == 0) continue;
    Bytes table = slice_from(table_, header_.pc_values + values);
    auto end =
        walk_pc_values(table, header_.quantum, limit, [](uint64_t, uint64_t, int64_t) { return true; });
    if (end && *end <= limit) return *end;
  }
  return limit;
}

std::string_view Pclntab::name_at(uint64_t offset) const {
  return cstring_at(table_, header_.names + offset);
}

const GoFunction* Pclntab::function_at(ImageAddr address) const {
  auto next = std::ranges::upper_bound(functions_, address, {}, &GoFunction::entry);
  if (next == functions_.begin()) return nullptr;
  const GoFunction& function = *std::prev(next);
  return address - function.entry < function.size ? &function : nullptr;
}

}  // namespace uscope::image
