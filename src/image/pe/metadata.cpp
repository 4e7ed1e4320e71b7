#include "image/pe/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace uscope::image {
namespace {

// What a column holds. Values below kTables are tables (a simple index into that table).
enum Column : uint8_t {
  kEnd = 0xff,
  kU16 = 0x80,
  kU32,
  kString,
  kGuid,
  kBlob,
  // Coded indexes: a tag in the low bits says which table.
  kTypeDefOrRef,
  kHasConstant,
  kHasCustomAttribute,
  kHasFieldMarshal,
  kHasDeclSecurity,
  kMemberRefParent,
  kHasSemantics,
  kMethodDefOrRef,
  kMemberForwarded,
  kImplementation,
  kCustomAttributeType,
  kResolutionScope,
  kTypeOrMethodDef,
};

struct CodedIndex {
  uint8_t tag_bits;
  std::array<uint8_t, 22> tables;  // 0xff: no such tag
};

// ECMA-335 II.24.2.6, in the order of Column from kTypeDefOrRef on.
constexpr uint8_t x = 0xff;
constexpr std::array<CodedIndex, 13> kCodedIndexes = {{
    {2, {0x02, 0x01, 0x1b, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {2, {0x04, 0x08, 0x17, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {5, {0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14,
         0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27, 0x28, 0x2a, 0x2c, 0x2b}},
    {1, {0x04, 0x08, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {2, {0x02, 0x06, 0x20, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {3, {0x02, 0x01, 0x1a, 0x06, 0x1b, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {1, {0x14, 0x17, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {1, {0x06, 0x0a, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {1, {0x04, 0x06, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {2, {0x26, 0x23, 0x27, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {3, {x, x, 0x06, 0x0a, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {2, {0x00, 0x1a, 0x23, 0x01, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
    {1, {0x02, 0x06, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}},
}};

using Schema = std::array<uint8_t, 10>;
constexpr uint8_t e = kEnd;
// ECMA-335 II.22, tables 0x00 to 0x2c. A column of 1 byte and its padding byte are one kU16 here.
constexpr std::array<Schema, 0x2d> kSchemas = {{
    {kU16, kString, kGuid, kGuid, kGuid, e},                            // 00 Module
    {kResolutionScope, kString, kString, e},                            // 01 TypeRef
    {kU32, kString, kString, kTypeDefOrRef, 0x04, 0x06, e},             // 02 TypeDef
    {0x04, e},                                                          // 03 FieldPtr
    {kU16, kString, kBlob, e},                                          // 04 Field
    {0x06, e},                                                          // 05 MethodPtr
    {kU32, kU16, kU16, kString, kBlob, 0x08, e},                        // 06 MethodDef
    {0x08, e},                                                          // 07 ParamPtr
    {kU16, kU16, kString, e},                                           // 08 Param
    {0x02, kTypeDefOrRef, e},                                           // 09 InterfaceImpl
    {kMemberRefParent, kString, kBlob, e},                              // 0a MemberRef
    {kU16, kHasConstant, kBlob, e},                                     // 0b Constant
    {kHasCustomAttribute, kCustomAttributeType, kBlob, e},              // 0c CustomAttribute
    {kHasFieldMarshal, kBlob, e},                                       // 0d FieldMarshal
    {kU16, kHasDeclSecurity, kBlob, e},                                 // 0e DeclSecurity
    {kU16, kU32, 0x02, e},                                              // 0f ClassLayout
    {kU32, 0x04, e},                                                    // 10 FieldLayout
    {kBlob, e},                                                         // 11 StandAloneSig
    {0x02, 0x14, e},                                                    // 12 EventMap
    {0x14, e},                                                          // 13 EventPtr
    {kU16, kString, kTypeDefOrRef, e},                                  // 14 Event
    {0x02, 0x17, e},                                                    // 15 PropertyMap
    {0x17, e},                                                          // 16 PropertyPtr
    {kU16, kString, kBlob, e},                                          // 17 Property
    {kU16, 0x06, kHasSemantics, e},                                     // 18 MethodSemantics
    {0x02, kMethodDefOrRef, kMethodDefOrRef, e},                        // 19 MethodImpl
    {kString, e},                                                       // 1a ModuleRef
    {kBlob, e},                                                         // 1b TypeSpec
    {kU16, kMemberForwarded, kString, 0x1a, e},                         // 1c ImplMap
    {kU32, 0x04, e},                                                    // 1d FieldRVA
    {kU32, kU32, e},                                                    // 1e EncLog
    {kU32, e},                                                          // 1f EncMap
    {kU32, kU16, kU16, kU16, kU16, kU32, kBlob, kString, kString, e},   // 20 Assembly
    {kU32, e},                                                          // 21 AssemblyProcessor
    {kU32, kU32, kU32, e},                                              // 22 AssemblyOS
    {kU16, kU16, kU16, kU16, kU32, kBlob, kString, kString, kBlob, e},  // 23 AssemblyRef
    {kU32, 0x23, e},                                                    // 24 AssemblyRefProcessor
    {kU32, kU32, kU32, 0x23, e},                                        // 25 AssemblyRefOS
    {kU32, kString, kBlob, e},                                          // 26 File
    {kU32, kU32, kString, kString, kImplementation, e},                 // 27 ExportedType
    {kU32, kU32, kString, kImplementation, e},                          // 28 ManifestResource
    {0x02, 0x02, e},                                                    // 29 NestedClass
    {kU16, kU16, kTypeOrMethodDef, kString, e},                         // 2a GenericParam
    {kMethodDefOrRef, kBlob, e},                                        // 2b MethodSpec
    {0x2a, kTypeDefOrRef, e},                                           // 2c GenericParamConstraint
}};

constexpr size_t kMaxName = 4096;

// How wide each kind of column is depends on the heaps' sizes and on how many rows the tables claim.
struct Widths {
  uint8_t string_width, guid_width, blob_width;
  std::array<uint32_t, 64> rows{};

  uint8_t of(uint8_t column) const {
    switch (column) {
      case kU16:
        return 2;
      case kU32:
        return 4;
      case kString:
        return string_width;
      case kGuid:
        return guid_width;
      case kBlob:
        return blob_width;
      default:
        break;
    }
    if (column < kU16) return rows[column] > 0xffff ? 4 : 2;
    const CodedIndex& coded = kCodedIndexes[column - kTypeDefOrRef];
    uint32_t limit = 0xffffu >> coded.tag_bits;
    for (uint8_t table : coded.tables) {
      if (table != x && rows[table] > limit) return 4;
    }
    return 2;
  }
};

MetadataToken decode(Column column, uint32_t value) {
  const CodedIndex& coded = kCodedIndexes[column - kTypeDefOrRef];
  uint32_t tag = value & ((1u << coded.tag_bits) - 1);
  if (tag >= coded.tables.size() || coded.tables[tag] == x) return {};
  return {MetadataTable(coded.tables[tag]), value >> coded.tag_bits};
}

}  // namespace

std::string to_string(const Guid& g) {
  // The first three fields are little-endian numbers, the rest plain bytes.
  return fmt::format(
      "{:02x}{:02x}{:02x}{:02x}-{:02x}{:02x}-{:02x}{:02x}-{:02x}{:02x}-{:02x}{:02x}{:02x}{:02x}{:02x}{:02x}",
      g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
}

uint32_t read_compressed(ByteReader& reader) {
  uint32_t first = reader.u8();
  if ((first & 0x80) == 0) return first;
  if ((first & 0xc0) == 0x80) return (first & 0x3f) << 8 | reader.u8();
  if ((first & 0xe0) == 0xc0) {
    uint32_t value = first & 0x1f;
    for (int i = 0; i < 3; ++i) value = value << 8 | reader.u8();
    return value;
  }
  reader.skip(~uint64_t(0));  // malformed: fail the reader
  return 0;
}

int32_t read_compressed_signed(ByteReader& reader) {
  uint64_t before = reader.position();
  uint32_t rotated = read_compressed(reader);
  uint64_t width = reader.position() - before;
  int32_t value = int32_t(rotated >> 1);
  if ((rotated & 1) == 0) return value;
  return value - (width == 1 ? 0x40 : width == 2 ? 0x2000 : 0x10000000);
}

MetadataToken decode_type_token(uint32_t coded) { return decode(kTypeDefOrRef, coded); }

Result<Metadata> Metadata::parse(Bytes bytes) {
  Metadata metadata;
  TRY_STATUS(metadata.read_streams(bytes));
  TRY_STATUS(metadata.read_tables(metadata.table_stream_));
  metadata.index_nesting();
  return metadata;
}

Status Metadata::read_streams(Bytes bytes) {
  ByteReader reader(bytes);
  if (reader.u32() != 0x424a5342) return fail("no metadata signature (BSJB)");
  reader.skip(8);
  reader.skip(reader.u32());  // version text, padded
  reader.skip(2);
  unsigned count = reader.u16();
  for (unsigned i = 0; i < count; ++i) {
    uint64_t offset = reader.u32();
    uint64_t size = reader.u32();
    std::string_view name = reader.cstring();
    reader.align(4);
    if (reader.failed()) return fail("the metadata's stream headers are cut short");
    Bytes stream = slice_from(bytes, offset);
    if (size > stream.size()) truncated_ = true;
    stream = stream.first(std::min<uint64_t>(size, stream.size()));
    if (name == "#~" || name == "#-") table_stream_ = stream;
    if (name == "#Strings") strings_ = stream;
    if (name == "#Blob") blobs_ = stream;
    if (name == "#GUID") guids_ = stream;
  }
  if (table_stream_.empty()) return fail("the metadata has no table stream");
  return {};
}

Status Metadata::read_tables(Bytes stream) {
  ByteReader reader(stream, 6);
  uint8_t heap_sizes = reader.u8();
  reader.skip(1);
  uint64_t valid = reader.u64();
  reader.skip(8);  // which tables are sorted
  Widths widths{uint8_t((heap_sizes & 1) != 0 ? 4 : 2), uint8_t((heap_sizes & 2) != 0 ? 4 : 2),
                uint8_t((heap_sizes & 4) != 0 ? 4 : 2)};
  for (size_t table = 0; table < 64; ++table) {
    if ((valid >> table & 1) != 0) widths.rows[table] = reader.u32();
  }
  if ((heap_sizes & 0x40) != 0) reader.skip(4);
  if (reader.failed()) return fail("the metadata's table header is cut short");
  for (size_t number = 0; number < kTableCount; ++number) {
    Table& table = tables_[number];
    for (unsigned column = 0; kSchemas[number][column] != kEnd; ++column) {
      table.column_offset[column] = uint8_t(table.row_size);
      table.column_size[column] = widths.of(kSchemas[number][column]);
      table.row_size += table.column_size[column];
    }
    uint64_t fitting = reader.remaining() / table.row_size;
    table.count = uint32_t(std::min<uint64_t>(widths.rows[number], fitting));
    if (table.count < widths.rows[number]) truncated_ = true;
    table.rows = reader.take(uint64_t(table.count) * table.row_size);
    // After a cut table the rest of the stream is no table any more.
    if (truncated_ && table.count < widths.rows[number]) break;
  }
  return {};
}

void Metadata::index_nesting() {
  enclosing_.assign(row_count(MetadataTable::kTypeDef), 0);
  for (uint32_t row = 1; row <= row_count(MetadataTable::kNestedClass); ++row) {
    uint32_t nested = cell(MetadataTable::kNestedClass, row, 0);
    if (nested != 0 && nested <= enclosing_.size()) {
      enclosing_[nested - 1] = cell(MetadataTable::kNestedClass, row, 1);
    }
  }
}

uint32_t Metadata::row_count(MetadataTable table) const {
  return size_t(table) < kTableCount ? tables_[size_t(table)].count : 0;
}

uint32_t Metadata::cell(MetadataTable which, uint32_t row, unsigned column) const {
  const Table& table = tables_[size_t(which)];
  if (row == 0 || row > table.count) return 0;
  ByteReader reader(table.rows, uint64_t(row - 1) * table.row_size + table.column_offset[column]);
  return table.column_size[column] == 4 ? reader.u32() : reader.u16();
}

std::string_view Metadata::string_cell(MetadataTable table, uint32_t row, unsigned column) const {
  uint32_t index = cell(table, row, column);
  if (index >= strings_.size()) return {};
  // Bounded, so that a heap without terminators cannot make every look-up walk all of it.
  Bytes rest = slice_from(strings_, index);
  return cstring_at(rest.first(std::min<size_t>(rest.size(), kMaxName)), 0);
}

Bytes Metadata::blob_cell(MetadataTable table, uint32_t row, unsigned column) const {
  uint32_t index = cell(table, row, column);
  if (index == 0) return {};
  ByteReader reader(blobs_, index);
  return reader.take(read_compressed(reader));
}

std::string_view Metadata::assembly_name() const {
  std::string_view name = string_cell(MetadataTable::kAssembly, 1, 7);
  return name.empty() ? module_name() : name;
}

std::string_view Metadata::module_name() const { return string_cell(MetadataTable::kModule, 1, 1); }

Guid Metadata::mvid() const {
  Guid guid{};
  uint32_t index = cell(MetadataTable::kModule, 1, 2);
  if (index == 0) return guid;
  ByteReader reader(guids_, uint64_t(index - 1) * 16);
  return reader.read<Guid>();
}

std::string_view Metadata::assembly_ref_name(uint32_t row) const {
  return string_cell(MetadataTable::kAssemblyRef, row, 6);
}

std::string_view Metadata::module_ref_name(uint32_t row) const {
  return string_cell(MetadataTable::kModuleRef, row, 0);
}

TypeDefRow Metadata::type_def(uint32_t row) const {
  return {string_cell(MetadataTable::kTypeDef, row, 1), string_cell(MetadataTable::kTypeDef, row, 2),
          cell(MetadataTable::kTypeDef, row, 5)};
}

TypeRefRow Metadata::type_ref(uint32_t row) const {
  return {decode(kResolutionScope, cell(MetadataTable::kTypeRef, row, 0)),
          string_cell(MetadataTable::kTypeRef, row, 1), string_cell(MetadataTable::kTypeRef, row, 2)};
}

MethodDefRow Metadata::method_def(uint32_t row) const {
  return {string_cell(MetadataTable::kMethodDef, row, 3), blob_cell(MetadataTable::kMethodDef, row, 4),
          cell(MetadataTable::kMethodDef, row, 0)};
}

MemberRefRow Metadata::member_ref(uint32_t row) const {
  return {decode(kMemberRefParent, cell(MetadataTable::kMemberRef, row, 0)),
          string_cell(MetadataTable::kMemberRef, row, 1), blob_cell(MetadataTable::kMemberRef, row, 2)};
}

Bytes Metadata::type_spec(uint32_t row) const { return blob_cell(MetadataTable::kTypeSpec, row, 0); }

uint32_t Metadata::owner_of_method(uint32_t method_row) const {
  // Edit-and-continue metadata goes through one more table.
  if (uint32_t pointers = row_count(MetadataTable::kMethodPtr); pointers != 0) return 0;
  if (!contains({MetadataTable::kMethodDef, method_row})) return 0;
  // Types list their methods in runs, in order: the owner is the last type whose run begins at or before the
  // method.
  uint32_t low = 0, high = row_count(MetadataTable::kTypeDef);
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cell(MetadataTable::kTypeDef, middle + 1, 5) <= method_row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

uint32_t Metadata::enclosing_type(uint32_t type_row) const {
  if (type_row == 0 || type_row > enclosing_.size()) return 0;
  uint32_t outer = enclosing_[type_row - 1];
  return outer <= enclosing_.size() ? outer : 0;
}

}  // namespace uscope::image
