#include "unit/image/pe/pe_builder.h"

#include <algorithm>

namespace uscope::image::testing {
namespace {

using Elements = std::map<uint32_t, Blob>;

// The tree of one block, over indexes 0 to 15: `bit` is the level.
Blob tree(const Elements& elements, uint32_t bit) {
  if (bit == 0) return elements.begin()->second;
  if (elements.size() == 1) {
    Blob leaf = native_unsigned(elements.begin()->first << 2);
    return leaf.add(elements.begin()->second);
  }
  Elements left, right;
  for (const auto& [index, data] : elements) ((index & bit) != 0 ? right : left).emplace(index, data);
  Blob left_tree = left.empty() ? Blob() : tree(left, bit / 2);
  Blob right_tree = right.empty() ? Blob() : tree(right, bit / 2);
  uint32_t children = (left.empty() ? 0 : 1) | (right.empty() ? 0 : 2);
  // The distance to the right child counts the node itself, whose length depends on the distance.
  Blob node = native_unsigned(children);
  for (int i = 0; i < 4 && !right.empty(); ++i) {
    node = native_unsigned(uint32_t(node.size() + left_tree.size()) << 2 | children);
  }
  return node.add(left_tree).add(right_tree);
}

}  // namespace

Blob native_array(const Elements& elements) {
  uint32_t count = elements.empty() ? 0 : elements.rbegin()->first + 1;
  uint32_t blocks = (count + 15) / 16;
  std::vector<Elements> by_block(blocks);
  for (const auto& [index, data] : elements) by_block[index / 16].emplace(index % 16, data);
  Blob indexes, trees;
  for (const Elements& block : by_block) {
    indexes.u32(blocks * 4 + trees.size());
    // An empty block points to a leaf for no index of the block: 15 in a block that has none is still "not
    // found" for the others, so use a node that claims a right child only and is never taken for index bits
    // of 0.
    trees.add(block.empty() ? native_unsigned(16 << 2) : tree(block, 8));
  }
  return native_unsigned(count << 2 | 2).add(indexes).add(trees);
}

Blob native_hashtable(const std::vector<Blob>& entries) {
  // Offsets count from behind the header byte.
  uint32_t bucket_begin = 8;
  uint32_t bucket_size = uint32_t(entries.size() * 6);
  Blob table;
  table.u8(0 << 2 | 2).u32(bucket_begin).u32(bucket_begin + bucket_size);
  size_t data_at = 1 + bucket_begin + bucket_size;
  size_t data_end = 0;
  Blob data;
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t delta_at = 1 + bucket_begin + i * 6 + 1;
    table.u8(0x5a).add(native_signed(int32_t(data_at + data_end) - int32_t(delta_at)));
    data.add(entries[i]);
    data_end = data.size();
  }
  return table.add(data);
}

MetadataBuilder::MetadataBuilder(std::string_view assembly) {
  strings_.u8(0);
  blobs_.u8(0);
  std::string module = std::string(assembly) + ".dll";
  row(0x00, Blob().u16(0).u16(string(module)).u16(1).u16(0).u16(0));
  row(0x20, Blob().u32(0x8004).u16(1).u16(0).u16(0).u16(0).u32(0).u16(0).u16(string(assembly)).u16(0));
  type_def("", "<Module>");
}

uint16_t MetadataBuilder::string(std::string_view text) {
  if (text.empty()) return 0;
  uint16_t at = uint16_t(strings_.size());
  strings_.text(text).u8(0);
  return at;
}

uint16_t MetadataBuilder::blob(const Blob& content) {
  uint16_t at = uint16_t(blobs_.size());
  if (content.size() >= 0x80) {
    blobs_.u8(0x80 | content.size() >> 8).u8(content.size() & 0xff);
  } else {
    blobs_.u8(content.size());
  }
  blobs_.add(content);
  return at;
}

uint16_t MetadataBuilder::row(int table, const Blob& content) {
  rows_[table].push_back(content);
  return uint16_t(rows_[table].size());
}

uint16_t MetadataBuilder::assembly_ref(std::string_view name) {
  return row(0x23, Blob().u16(1).u16(0).u16(0).u16(0).u32(0).u16(0).u16(string(name)).u16(0).u16(0));
}

uint16_t MetadataBuilder::type_ref(uint16_t scope, std::string_view name_space, std::string_view name) {
  return row(0x01, Blob().u16(scope).u16(string(name)).u16(string(name_space)));
}

uint16_t MetadataBuilder::type_def(std::string_view name_space, std::string_view name, uint16_t enclosing) {
  uint16_t first_method = uint16_t(rows_[0x06].size() + 1);
  uint16_t made =
      row(0x02, Blob().u32(0).u16(string(name)).u16(string(name_space)).u16(0).u16(1).u16(first_method));
  if (enclosing != 0) nest(made, enclosing);
  return made;
}

void MetadataBuilder::nest(uint16_t inner, uint16_t outer) { row(0x29, Blob().u16(inner).u16(outer)); }

uint16_t MetadataBuilder::method(std::string_view name, const Blob& signature) {
  return row(0x06, Blob().u32(0).u16(0).u16(0).u16(string(name)).u16(blob(signature)).u16(1));
}

uint16_t MetadataBuilder::type_spec(const Blob& signature) { return row(0x1b, Blob().u16(blob(signature))); }

uint16_t MetadataBuilder::member_ref(uint16_t coded_parent, std::string_view name, const Blob& signature) {
  return row(0x0a, Blob().u16(coded_parent).u16(string(name)).u16(blob(signature)));
}

Blob MetadataBuilder::build(std::optional<std::pair<int, uint32_t>> claim) const {
  Blob tables;
  uint64_t valid = 0;
  for (const auto& [number, rows] : rows_) {
    if (!rows.empty()) valid |= uint64_t(1) << number;
  }
  tables.u32(0).u8(2).u8(0).u8(0).u8(1).u64(valid).u64(0);
  for (const auto& [number, rows] : rows_) {
    if (rows.empty()) continue;
    tables.u32(claim && claim->first == number ? claim->second : rows.size());
  }
  for (const auto& [number, rows] : rows_) {
    for (const Blob& content : rows) tables.add(content);
  }
  tables.align(4);
  Blob guids;
  for (int i = 0; i < 16; ++i) guids.u8(0x10 + i);

  struct Stream {
    std::string_view name;
    Blob content;
  };
  std::vector<Stream> streams = {{"#~", tables}, {"#Strings", strings_}, {"#GUID", guids}, {"#Blob", blobs_}};
  Blob root;
  root.u32(0x424a5342).u16(1).u16(1).u32(0).u32(12).text("v4.0.30319").u16(0).u16(0).u16(streams.size());
  size_t header_size = root.size();
  for (const Stream& stream : streams) header_size += 8 + (stream.name.size() + 4) / 4 * 4;
  size_t offset = header_size;
  for (const Stream& stream : streams) {
    root.u32(offset).u32(stream.content.size()).text(stream.name).u8(0).align(4);
    offset += (stream.content.size() + 3) / 4 * 4;
  }
  for (const Stream& stream : streams) root.add(stream.content).align(4);
  return root;
}

Blob build_pe(const PeSpec& spec) {
  Blob file;
  file.text("MZ").pad_to(0x3c).u32(0x40);
  file.text("PE").u16(0).u16(spec.machine).u16(spec.sections.size()).u32(0).u32(0).u32(0);
  size_t optional_size = (spec.is_64_bit ? 112 : 96) + 16 * 8;
  file.u16(optional_size).u16(0x2022);
  size_t optional = file.size();
  file.u16(spec.is_64_bit ? 0x20b : 0x10b).pad_to(optional + (spec.is_64_bit ? 108 : 92)).u32(16);
  for (int i = 0; i < 16; ++i) {
    auto directory = spec.directories.find(i);
    bool present = directory != spec.directories.end();
    file.u32(present ? directory->second.first : 0).u32(present ? directory->second.second : 0);
  }
  uint32_t at = 0x200;
  for (const SectionSpec& section : spec.sections) {
    at += section.file_gap;
    uint32_t raw = uint32_t(section.content.size() + 0x1ff) / 0x200 * 0x200;
    size_t name_at = file.size();
    file.text(section.name).pad_to(name_at + 8);
    file.u32(section.content.size()).u32(section.address).u32(raw).u32(at).u32(0).u32(0).u32(0);
    file.u32(section.executable ? 0x60000020 : 0x40000040);
    at += raw;
  }
  file.pad_to(0x200);
  for (const SectionSpec& section : spec.sections) {
    file.pad_to(file.size() + section.file_gap).add(section.content).align(0x200);
  }
  return file;
}

Blob build_ready_to_run(const ReadyToRunSpec& spec) {
  constexpr uint32_t base = ReadyToRunSpec::kTextAddress;
  std::map<uint32_t, Blob> sections = spec.extra_sections;
  Blob functions;
  for (const FunctionSpec& function : spec.functions) functions.u32(function.begin).u32(function.end).u32(0);
  if (!spec.functions.empty()) sections[102] = functions;
  if (!spec.method_entries.empty()) sections[103] = native_array(spec.method_entries);
  if (!spec.instance_entries.empty()) sections[109] = native_hashtable(spec.instance_entries);

  Blob text;
  text.pad_to(72);  // the COR header, filled in below
  uint32_t metadata_at = uint32_t(text.size());
  text.add(spec.metadata).align(4);
  std::map<uint32_t, uint32_t> section_at;
  for (const auto& [type, content] : sections) {
    section_at[type] = uint32_t(text.size());
    text.add(content).align(4);
  }
  uint32_t header_at = uint32_t(text.size());
  text.u32(spec.signature).u16(spec.major).u16(spec.minor).u32(spec.flags).u32(sections.size());
  for (const auto& [type, content] : sections)
    text.u32(type).u32(base + section_at[type]).u32(content.size());

  text.put_u32(0, 72);
  text.put_u32(8, base + metadata_at);
  text.put_u32(12, uint32_t(spec.metadata.size()));
  if (spec.with_header) {
    text.put_u32(64, base + header_at);
    text.put_u32(68, uint32_t(text.size() - header_at));
  }
  PeSpec pe;
  pe.machine = spec.machine;
  pe.directories[14] = {base, 72};
  Blob code;
  code.pad_to(spec.code_size);
  pe.sections = {{".text", base, text, false, 0},
                 {".managed", ReadyToRunSpec::kCodeAddress, code, true, 0x600}};
  return build_pe(pe);
}

}  // namespace uscope::image::testing
