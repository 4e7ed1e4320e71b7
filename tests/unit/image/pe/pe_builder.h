// Builds the few bytes that the tests of .NET images need: metadata, ReadyToRun tables, a PE file around
// them. The encoders are written from the format's description, independently of the readers they test.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::image::testing {

// Bytes with appenders; returns *this to chain.
struct Blob {
  std::vector<uint8_t> bytes;

  Blob() = default;
  Blob(std::initializer_list<int> values) {
    for (int value : values) u8(value);
  }
  Blob& u8(uint64_t value) { return number(value, 1); }
  Blob& u16(uint64_t value) { return number(value, 2); }
  Blob& u32(uint64_t value) { return number(value, 4); }
  Blob& u64(uint64_t value) { return number(value, 8); }
  Blob& text(std::string_view value) {
    bytes.insert(bytes.end(), value.begin(), value.end());
    return *this;
  }
  Blob& add(const Blob& other) {
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
    return *this;
  }
  Blob& align(size_t to) {
    while (bytes.size() % to != 0) bytes.push_back(0);
    return *this;
  }
  Blob& pad_to(size_t size) {
    if (bytes.size() < size) bytes.resize(size);
    return *this;
  }
  void put_u32(size_t at, uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes[at + i] = uint8_t(value >> (8 * i));
  }
  size_t size() const { return bytes.size(); }

 private:
  Blob& number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes.push_back(uint8_t(value >> (8 * i)));
    return *this;
  }
};

// The "native format" unsigned integer.
inline Blob native_unsigned(uint32_t value) {
  if (value < 1u << 7) return Blob().u8(value << 1);
  if (value < 1u << 14) return Blob().u16(value << 2 | 1);
  if (value < 1u << 21) {
    Blob blob;
    uint32_t raw = value << 3 | 3;
    return blob.u8(raw & 0xff).u8(raw >> 8 & 0xff).u8(raw >> 16);
  }
  if (value < 1u << 28) return Blob().u32(value << 4 | 7);
  return Blob().u8(0x0f).u32(value);
}
inline Blob native_signed(int32_t value) { return Blob().u8(0x0f).u32(uint32_t(value)); }

// A sparse array: element data by index.
Blob native_array(const std::map<uint32_t, Blob>& elements);
// A hash table of one bucket.
Blob native_hashtable(const std::vector<Blob>& entries);

struct MethodSpec {
  std::string name;
  Blob signature;
};

// Metadata with 2-byte indexes.
class MetadataBuilder {
 public:
  MetadataBuilder(std::string_view assembly);

  uint16_t assembly_ref(std::string_view name);
  // `scope` is a coded ResolutionScope.
  uint16_t type_ref(uint16_t scope, std::string_view name_space, std::string_view name);
  // Methods of the types must be added in the order of the types.
  uint16_t type_def(std::string_view name_space, std::string_view name, uint16_t enclosing = 0);
  uint16_t method(std::string_view name, const Blob& signature);
  uint16_t type_spec(const Blob& signature);
  uint16_t member_ref(uint16_t coded_parent, std::string_view name, const Blob& signature);
  void nest(uint16_t inner, uint16_t outer);

  static uint16_t scope_of_assembly(uint16_t row) { return uint16_t(row << 2 | 2); }
  static uint16_t scope_of_type(uint16_t row) { return uint16_t(row << 2 | 3); }
  static int coded_def(uint16_t row) { return row << 2; }
  static int coded_ref(uint16_t row) { return row << 2 | 1; }

  // `claim`: write this row count for that table instead of the true one.
  Blob build(std::optional<std::pair<int, uint32_t>> claim = std::nullopt) const;

 private:
  uint16_t string(std::string_view text);
  uint16_t blob(const Blob& content);
  uint16_t row(int table, const Blob& content);

  Blob strings_, blobs_;
  std::map<int, std::vector<Blob>> rows_;
};

struct SectionSpec {
  std::string name;
  uint32_t address;
  Blob content;
  bool executable = false;
  uint32_t file_gap = 0;  // unused bytes in the file before it
};

struct PeSpec {
  uint16_t machine = 0xfd1d;  // x86-64 for Linux
  std::vector<SectionSpec> sections;
  std::map<int, std::pair<uint32_t, uint32_t>> directories;  // number -> RVA, size
  bool is_64_bit = true;
};
Blob build_pe(const PeSpec& spec);

struct FunctionSpec {
  uint32_t begin, end;
};

// A ReadyToRun image: headers and tables in .text, code in .managed, which lies elsewhere in the file.
struct ReadyToRunSpec {
  Blob metadata;
  std::vector<FunctionSpec> functions;
  std::map<uint32_t, Blob> method_entries;  // by MethodDef row − 1
  std::vector<Blob> instance_entries;
  std::map<uint32_t, Blob> extra_sections;  // by ReadyToRun section number
  uint32_t flags = 3;
  uint16_t machine = 0xfd1d;
  uint32_t code_size = 0x400;
  uint32_t signature = 0x00525452;
  uint16_t major = 9, minor = 0;
  bool with_header = true;  // false: IL only

  static constexpr uint32_t kTextAddress = 0x10200;
  static constexpr uint32_t kCodeAddress = 0x40000;
};
Blob build_ready_to_run(const ReadyToRunSpec& spec);

}  // namespace uscope::image::testing
