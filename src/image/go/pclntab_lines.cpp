// Lines, files and inlined calls of Pclntab.
#include <algorithm>
#include <map>

#include "image/go/pc_values.h"
#include "image/go/pclntab.h"
#include "image/go/pclntab_record.h"

namespace uscope::image {
namespace {

constexpr uint32_t pcdata_inline_index = 2;
constexpr uint32_t funcdata_inline_tree = 3;
// No compiler nests calls deeper; a cycle in a hostile table ends here.
constexpr int deepest_inlining = 256;
constexpr size_t longest_path = 4096;
// Of one function.
constexpr size_t most_ranges = size_t(1) << 18;

}  // namespace

std::string_view Pclntab::file_name(const Record& record, int64_t number) const {
  if (number < 0) return {};
  if (header_.format == PclntabFormat::Go1_2) {
    ByteReader reader(table_, header_.files + uint64_t(number) * 4);
    uint32_t offset = reader.u32();
    return reader.failed() || offset == 0 ? std::string_view() : cstring_at(table_, offset);
  }
  uint64_t at = header_.units + (uint64_t(record.unit) + uint64_t(number)) * 4;
  if (at + 4 > header_.files) return {};
  ByteReader reader(table_, at);
  uint32_t offset = reader.u32();
  if (reader.failed() || offset == UINT32_MAX || offset >= header_.pc_values - header_.files) return {};
  Bytes rest = slice_from(table_.first(header_.pc_values), header_.files + offset);
  return cstring_at(rest.first(std::min(rest.size(), longest_path)), 0);
}

std::optional<int64_t> Pclntab::value_at(uint64_t pc_table, uint64_t pc_offset, uint64_t limit) const {
  if (pc_table == 0) return std::nullopt;
  std::optional<int64_t> found;
  Bytes table = slice_from(table_, header_.pc_values + pc_table);
  walk_pc_values(table, header_.quantum, limit, [&](uint64_t, uint64_t end, int64_t value) {
    if (pc_offset < end) found = value;
    return !found;
  });
  return found;
}

GoFrame Pclntab::frame_line(const Record& record, uint64_t pc_offset, uint64_t limit) const {
  GoFrame frame;
  frame.file = file_name(record, value_at(record.files, pc_offset, limit).value_or(-1));
  frame.line = uint32_t(std::max<int64_t>(value_at(record.lines, pc_offset, limit).value_or(0), 0));
  return frame;
}

std::vector<GoFrameSize> Pclntab::frame_sizes(const GoFunction& function) const {
  std::vector<GoFrameSize> sizes;
  auto record = read_record(function.record);
  if (!record || record->frame_sizes == 0) return sizes;
  auto end = walk_pc_values(slice_from(table_, header_.pc_values + record->frame_sizes), header_.quantum,
                            function.size, [&](uint64_t begin, uint64_t, int64_t size) {
                              sizes.push_back({begin, size});
                              return sizes.size() < most_ranges;
                            });
  if (!end) sizes.clear();
  return sizes;
}

std::vector<GoLine> Pclntab::lines(const GoFunction& function) const {
  std::vector<GoLine> result;
  auto record = read_record(function.record);
  if (!record || record->lines == 0) return result;
  struct Run {
    uint64_t end;
    int64_t file;
  };
  std::vector<Run> files;
  auto table = [&](uint32_t values) { return slice_from(table_, header_.pc_values + values); };
  if (record->files != 0) {
    walk_pc_values(table(record->files), header_.quantum, function.size,
                   [&](uint64_t, uint64_t end, int64_t value) {
                     files.push_back({end, value});
                     return files.size() < most_ranges;
                   });
  }
  size_t at = 0;
  walk_pc_values(
      table(record->lines), header_.quantum, function.size, [&](uint64_t begin, uint64_t end, int64_t line) {
        // A line's range may span several files when one inlined call follows another on lines of the same
        // number.
        while (begin < end) {
          while (at < files.size() && files[at].end <= begin) ++at;
          uint64_t stop = at < files.size() ? std::min(end, files[at].end) : end;
          std::string_view file = at < files.size() ? file_name(*record, files[at].file) : std::string_view();
          result.push_back(
              {function.entry + begin, stop - begin, file, uint32_t(std::max<int64_t>(line, 0))});
          begin = stop;
        }
        return result.size() < most_ranges;
      });
  return result;
}

Bytes Pclntab::loaded_from(uint64_t address) const {
  for (const auto& [begin, bytes] : loaded_) {
    if (address >= begin.value && address - begin.value < bytes.size())
      return bytes.subspan(address - begin.value);
  }
  return {};
}

std::optional<Pclntab::InlineEntry> Pclntab::inline_entry(const Record& record, int64_t index) const {
  if (index < 0 || record.funcdata_count <= funcdata_inline_tree) return std::nullopt;
  bool by_offset = header_.is_offset_based();
  ByteReader reader(table_, record.funcdata + funcdata_inline_tree * (by_offset ? 4 : 8));
  uint64_t tree = by_offset ? reader.u32() : reader.u64();
  if (reader.failed() || (by_offset && (tree == UINT32_MAX || funcdata_base_ == 0)) || tree == 0)
    return std::nullopt;
  if (by_offset) tree += funcdata_base_;
  uint64_t size = header_.format >= PclntabFormat::Go1_20 ? 16 : 20;
  ByteReader entry(loaded_from(tree + uint64_t(index) * size));
  InlineEntry result;
  if (header_.format >= PclntabFormat::Go1_20) {
    entry.skip(4);
    result.name = int32_t(entry.u32());
    result.parent_pc = int32_t(entry.u32());
    result.start_line = int32_t(entry.u32());
  } else {
    entry.skip(12);  // parent, kind, file and line of the call: parent_pc tells them too
    result.name = int32_t(entry.u32());
    result.parent_pc = int32_t(entry.u32());
  }
  if (entry.failed() || result.name < 0 || result.parent_pc < 0) return std::nullopt;
  return result;
}

std::optional<int64_t> Pclntab::inline_index_at(const Record& record, uint64_t pc_offset,
                                                uint64_t limit) const {
  if (header_.format < PclntabFormat::Go1_16 || record.pcdata_count <= pcdata_inline_index)
    return std::nullopt;
  ByteReader reader(table_, record.pcdata + pcdata_inline_index * 4);
  auto index = value_at(reader.u32(), pc_offset, limit);
  return index && *index >= 0 ? index : std::nullopt;
}

std::vector<GoFrame> Pclntab::frames_at(ImageAddr address) const {
  std::vector<GoFrame> frames;
  const GoFunction* function = function_at(address);
  if (function == nullptr) return frames;
  auto record = read_record(function->record);
  if (!record) return frames;
  uint64_t at = address - function->entry;
  for (int depth = 0; depth < deepest_inlining; ++depth) {
    GoFrame& frame = frames.emplace_back(frame_line(*record, at, function->size));
    auto index = inline_index_at(*record, at, function->size);
    auto entry = index ? inline_entry(*record, *index) : std::nullopt;
    if (!entry || uint64_t(entry->parent_pc) >= function->size) {
      frame.function = function->name;
      break;
    }
    frame.function = name_at(uint32_t(entry->name));
    at = uint64_t(entry->parent_pc);
  }
  return frames;
}

std::vector<GoInlinedCall> Pclntab::inlined_calls(const GoFunction& function) const {
  std::vector<GoInlinedCall> calls;
  auto record = read_record(function.record);
  if (!record || header_.format < PclntabFormat::Go1_16 || record->pcdata_count <= pcdata_inline_index)
    return calls;
  uint32_t values = ByteReader(table_, record->pcdata + pcdata_inline_index * 4).u32();
  if (values == 0) return calls;

  struct Known {
    std::optional<size_t> call;  // nothing: damaged
    int64_t parent = -1;         // index in the tree
  };
  std::map<int64_t, Known> known;  // by index in the tree
  auto look_up = [&](int64_t index) -> const Known& {
    auto [place, is_new] = known.try_emplace(index);
    auto entry = is_new ? inline_entry(*record, index) : std::nullopt;
    if (!entry || uint64_t(entry->parent_pc) >= function.size) return place->second;
    GoFrame site = frame_line(*record, uint64_t(entry->parent_pc), function.size);
    place->second.call = calls.size();
    place->second.parent = inline_index_at(*record, uint64_t(entry->parent_pc), function.size).value_or(-1);
    calls.push_back({.function = name_at(uint32_t(entry->name)),
                     .call_file = site.file,
                     .call_line = site.line,
                     .start_line = uint32_t(std::max(entry->start_line, 0))});
    return place->second;
  };
  size_t added = 0;
  Bytes table = slice_from(table_, header_.pc_values + values);
  walk_pc_values(table, header_.quantum, function.size, [&](uint64_t begin, uint64_t end, int64_t index) {
    std::optional<size_t> inner;
    for (int depth = 0; index >= 0 && depth < deepest_inlining; ++depth) {
      auto [call, parent] = look_up(index);
      if (!call) break;
      if (inner) calls[*inner].parent = call;
      auto& ranges = calls[*call].ranges;
      bool adjacent = !ranges.empty() && ranges.back().begin + ranges.back().size == function.entry + begin;
      if (adjacent) {
        ranges.back().size += end - begin;
      } else {
        ranges.push_back({function.entry + begin, end - begin});
      }
      inner = call;
      index = parent;
      ++added;
    }
    return added < most_ranges;
  });
  return calls;
}

}  // namespace uscope::image
