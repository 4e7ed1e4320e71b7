// One line number program of .debug_line (DWARF 2–5): its file names and its rows. Rows are computed while
// they are visited, never stored, so that a table of any size costs no memory. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "image/dwarf/unit.h"

namespace uscope::image::dwarf {

class LineProgram {
 public:
  struct Row {
    uint64_t address = 0;
    uint32_t file = 1;
    uint32_t line = 1;
    uint32_t column = 0;
    bool is_statement = false;
    bool prologue_end = false;
    bool end_sequence = false;
  };

  // The program a unit's DW_AT_stmt_list names; of a split unit, its skeleton's.
  static std::optional<LineProgram> of(const Unit& unit);

  // As a full path where the table knows the directory; empty for an index that does not exist.
  std::string file_name(uint64_t index) const;
  // The indices that DW_AT_decl_file and rows may use.
  uint64_t first_file() const { return version_ >= 5 ? 0 : 1; }
  uint64_t file_end() const { return first_file() + files_.size(); }
  // In the order of the program: sequences of rising addresses. Stops when visit returns false.
  void for_each_row(const std::function<bool(const Row&)>& visit) const;

 private:
  struct FileEntry {
    std::string_view name;
    uint64_t directory = 0;
  };
  using Format = std::vector<std::pair<uint64_t, uint64_t>>;

  LineProgram() = default;
  bool read_header(const Unit& unit, Bytes section, uint64_t offset);
  bool read_names4(ByteReader& reader);
  bool read_names5(const Unit& unit, ByteReader& reader);
  static Format read_format(ByteReader& reader);
  bool read_entry(const Unit& unit, ByteReader& reader, const Format& format, FileEntry& entry) const;

  uint16_t version_ = 0;
  unsigned offset_size_ = 4;
  uint8_t min_instruction_ = 1, opcode_base_ = 13, line_range_ = 14;
  int8_t line_base_ = -5;
  bool default_is_statement_ = true;
  std::vector<uint8_t> opcode_lengths_;
  std::string_view comp_dir_;
  std::vector<std::string_view> directories_;  // [0] is the unit's own
  std::vector<FileEntry> files_;
  Bytes program_;
};

}  // namespace uscope::image::dwarf
