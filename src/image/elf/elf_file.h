// An ELF image as its bytes: headers, segments, sections, address conversion, identity. A thin bounded reader
// over <elf.h>: it believes nothing a file claims that the file's size refutes, and works on images whose
// section headers are gone. x86-64, 64-bit, little-endian only; anything else is an Error that names it.
//
// An ElfFile owns its mapping or buffer (from_bytes borrows); views and Sections it hands out live as long as
// it does, and stay good when it is moved. Opening reads the headers only. Immutable after that, so threads
// may share it. It does not read symbols (symbols.h), notes (notes.h) or DWARF, and it never writes.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/mapped_file.h"
#include "base/result.h"
#include "image/elf/decompress.h"

namespace uscope::image {

struct Segment {
  uint32_t type = 0;   // PT_*
  uint32_t flags = 0;  // PF_*
  ImageAddr address;
  FileOffset offset;
  uint64_t file_size = 0;
  uint64_t memory_size = 0;
  uint64_t alignment = 0;

  bool is_executable() const { return (flags & PF_X) != 0; }
};

struct Section {
  std::string_view name;
  uint32_t index = 0;
  uint32_t type = 0;   // SHT_*
  uint64_t flags = 0;  // SHF_*
  ImageAddr address;
  FileOffset offset;
  uint64_t size = 0;  // as stored: of a compressed section, the compressed size
  uint64_t entry_size = 0;
  uint64_t alignment = 0;
  uint32_t link = 0;
  uint32_t info = 0;

  bool is_allocated() const { return (flags & SHF_ALLOC) != 0; }
  bool is_executable() const { return (flags & SHF_EXECINSTR) != 0; }
  bool has_contents() const { return type != SHT_NOBITS && type != SHT_NULL; }
  bool is_compressed() const { return (flags & SHF_COMPRESSED) != 0 || name.starts_with(".zdebug_"); }
  bool contains(ImageAddr a) const { return a >= address && a - address < size; }
};

struct AddressRange {
  ImageAddr begin;
  uint64_t size = 0;

  bool contains(ImageAddr a) const { return a >= begin && a - begin < size; }
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

// A section's contents: a view of the file, or of the decompressed bytes that it owns.
struct SectionData {
  Bytes bytes;
  OwnedBytes owned;
};

enum class ElfType {
  Relocatable,
  StaticExecutable,
  StaticPie,
  Executable,
  PieExecutable,
  SharedLibrary,
  Core
};
std::string_view to_string(ElfType type);  // "static executable", "PIE executable", ...

struct DebugLink {
  std::string_view name;
  uint32_t crc = 0;
};
struct DebugAltLink {
  std::string_view name;
  Bytes build_id;
};

// What PT_DYNAMIC (or .dynamic) says. Everything is empty for a static image.
struct DynamicInfo {
  bool present = false;
  std::string_view soname, rpath, runpath;
  std::vector<std::string_view> needed;
  uint64_t flags_1 = 0;  // DF_1_*
  // Where the run-time symbol tables are; absent ones are 0. For images without section headers.
  ImageAddr symbol_table, string_table, hash, gnu_hash, versions, version_needs, version_definitions;
  uint64_t string_table_size = 0, version_need_count = 0, version_definition_count = 0;
  ImageAddr relocations;  // DT_RELA
  uint64_t relocations_size = 0;
  ImageAddr packed_relocations;  // DT_RELR
  uint64_t packed_relocations_size = 0;
};

class ElfFile {
 public:
  static Result<ElfFile> open(const std::string& path);
  // The bytes must outlive the ElfFile. `name` is what errors call the image.
  static Result<ElfFile> from_bytes(Bytes bytes, std::string name);
  static Result<ElfFile> from_buffer(OwnedBytes buffer, std::string name);
  // Whether the bytes start like an ELF file of any kind.
  static bool looks_like_elf(Bytes bytes);

  // As opened; for errors and messages.
  const std::string& path() const { return path_; }
  Bytes bytes() const { return bytes_; }
  const Elf64_Ehdr& header() const { return header_; }
  ImageAddr entry_point() const { return {header_.e_entry}; }
  ElfType type() const;
  // What the headers claimed and the file could not back: the answer is then partial.
  const std::vector<std::string>& problems() const { return problems_; }

  const std::vector<Segment>& segments() const { return segments_; }
  const Segment* find_segment(uint32_t type) const;
  // Sorted by address: the PT_LOAD segments.
  const std::vector<Segment>& loads() const { return loads_; }
  // Empty when the image has no section headers. sections()[i].index == i.
  const std::vector<Section>& sections() const { return sections_; }
  const Section* find_section(std::string_view name) const;
  // The allocated section that holds the address.
  const Section* section_at(ImageAddr address) const;

  // A segment's or section's bytes as stored, cut where the file ends. Empty for NOBITS.
  Bytes stored_bytes(const Segment& segment) const;
  Bytes stored_bytes(const Section& section) const;
  // A section's bytes, decompressed if need be (SHF_COMPRESSED by zlib or zstd, or the older .zdebug_*).
  Result<SectionData> read_section(const Section& section,
                                   uint64_t limit = default_decompression_limit) const;

  // By PT_LOAD: address - p_vaddr + p_offset. Nothing for addresses that no segment backs with bytes of the
  // file.
  std::optional<FileOffset> to_file_offset(ImageAddr address) const;
  // The executable mapping, where an offset is mapped more than once.
  std::optional<ImageAddr> to_image_addr(FileOffset offset) const;
  // The file's bytes from an address to the end of its segment; empty when there are none.
  Bytes bytes_from(ImageAddr address) const;
  std::optional<Bytes> bytes_at(ImageAddr address, uint64_t size) const;
  bool is_executable(ImageAddr address) const;
  // Executable PT_LOAD segments, in order of address.
  std::vector<AddressRange> executable_ranges() const;
  // Where the first PT_LOAD wants to be: process address = load bias + image address.
  ImageAddr lowest_address() const;

  // Empty when there is none. As raw bytes; to_hex() spells it.
  Bytes build_id() const;
  std::optional<DebugLink> debug_link() const;
  std::optional<DebugAltLink> debug_alt_link() const;
  bool has_debug_info() const;  // .debug_info or .zdebug_info with contents
  // The ELF image inside .gnu_debugdata (MiniDebugInfo: symbols only); nothing if there is no such section.
  Result<std::optional<ElfFile>> mini_debug_info(uint64_t limit = default_mini_debug_info_limit) const;
  std::string_view interpreter() const;
  DynamicInfo dynamic() const;
  // The distinct strings of .comment, such as "GCC: (Debian 12.2.0-14) 12.2.0".
  std::vector<std::string_view> comments() const;

  static constexpr uint64_t default_decompression_limit = uint64_t(4) << 30;
  static constexpr uint64_t default_mini_debug_info_limit = uint64_t(256) << 20;

 private:
  ElfFile() = default;
  static Result<ElfFile> parse(ElfFile file, Bytes bytes, std::string name);
  Status read_header();
  void read_sections();
  void read_segments();

  std::string path_;
  std::variant<std::monostate, MappedFile, OwnedBytes> storage_;
  Bytes bytes_;
  Elf64_Ehdr header_{};
  std::vector<Segment> segments_;
  std::vector<Segment> loads_;            // by address
  std::vector<Segment> loads_by_offset_;  // executable ones first, each group by offset
  size_t executable_load_count_ = 0;
  std::vector<Section> sections_;
  std::vector<uint32_t> sections_by_address_;
  std::vector<std::string> problems_;
};

std::string to_hex(Bytes bytes);

}  // namespace uscope::image
