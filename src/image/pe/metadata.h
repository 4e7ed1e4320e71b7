// The metadata of a managed assembly (ECMA-335, partition II): tables, heaps, and the few joins that naming a
// method needs. Views the bytes it was parsed from and owns none of them. Immutable after parse. The bytes
// may lie: a table that claims more rows than there is room for is cut, and truncated() says so; a row or a
// heap index out of range reads as zero or empty; chains of enclosing types are followed a bounded number of
// steps. It spells no signatures: signature.h does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace uscope::image {

// The tables that uscope asks about; their numbers are the high byte of a token.
enum class MetadataTable : uint8_t {
  kModule = 0x00,
  kTypeRef = 0x01,
  kTypeDef = 0x02,
  kMethodPtr = 0x05,
  kMethodDef = 0x06,
  kMemberRef = 0x0a,
  kModuleRef = 0x1a,
  kTypeSpec = 0x1b,
  kAssembly = 0x20,
  kAssemblyRef = 0x23,
  kExportedType = 0x27,
  kNestedClass = 0x29,
  kMethodSpec = 0x2b,
};

// A table and a row in it, rows counted from 1; row 0 is nil.
struct MetadataToken {
  MetadataTable table = MetadataTable::kModule;
  uint32_t row = 0;

  bool is_nil() const { return row == 0; }
  uint32_t value() const { return uint32_t(table) << 24 | row; }
  friend bool operator==(MetadataToken, MetadataToken) = default;
};

struct TypeDefRow {
  std::string_view name, name_space;
  uint32_t first_method = 0;
};
struct TypeRefRow {
  MetadataToken scope;
  std::string_view name, name_space;
};
struct MethodDefRow {
  std::string_view name;
  Bytes signature;
  uint32_t il_rva = 0;
};
struct MemberRefRow {
  MetadataToken parent;
  std::string_view name;
  Bytes signature;
};

using Guid = std::array<uint8_t, 16>;
// "{e46f1077-89cb-4add-94fd-a6ae91a035fc}" without the braces, as .NET spells it.
std::string to_string(const Guid& guid);

class Metadata {
 public:
  static constexpr unsigned kMaxNesting = 64;

  // `bytes` begins at the metadata root ("BSJB").
  static Result<Metadata> parse(Bytes bytes);

  uint32_t row_count(MetadataTable table) const;
  bool contains(MetadataToken token) const { return token.row != 0 && token.row <= row_count(token.table); }
  bool truncated() const { return truncated_; }

  std::string_view assembly_name() const;
  std::string_view module_name() const;
  Guid mvid() const;
  std::string_view assembly_ref_name(uint32_t row) const;
  std::string_view module_ref_name(uint32_t row) const;

  TypeDefRow type_def(uint32_t row) const;
  TypeRefRow type_ref(uint32_t row) const;
  MethodDefRow method_def(uint32_t row) const;
  MemberRefRow member_ref(uint32_t row) const;
  Bytes type_spec(uint32_t row) const;

  // The TypeDef row whose method this is; 0 for none.
  uint32_t owner_of_method(uint32_t method_row) const;
  // The TypeDef row that encloses this one; 0 for a type at the top.
  uint32_t enclosing_type(uint32_t type_row) const;

 private:
  struct Table {
    Bytes rows;
    uint32_t count = 0;
    uint32_t row_size = 0;
    std::array<uint8_t, 9> column_offset{};
    std::array<uint8_t, 9> column_size{};
  };
  static constexpr size_t kTableCount = 0x2d;

  Metadata() = default;
  Status read_streams(Bytes bytes);
  Status read_tables(Bytes stream);
  void index_nesting();
  uint32_t cell(MetadataTable table, uint32_t row, unsigned column) const;
  std::string_view string_cell(MetadataTable table, uint32_t row, unsigned column) const;
  Bytes blob_cell(MetadataTable table, uint32_t row, unsigned column) const;

  std::array<Table, kTableCount> tables_;
  Bytes strings_, blobs_, guids_, table_stream_;
  std::vector<uint32_t> enclosing_;  // by TypeDef row − 1
  bool truncated_ = false;
};

// The compressed unsigned integer of signatures and blobs; fails the reader on a malformed one.
uint32_t read_compressed(ByteReader& reader);
int32_t read_compressed_signed(ByteReader& reader);
// A TypeDefOrRef coded token as signatures hold it.
MetadataToken decode_type_token(uint32_t coded);

}  // namespace uscope::image
