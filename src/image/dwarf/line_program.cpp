#include "image/dwarf/line_program.h"

#include <dwarf.h>

#include "image/dwarf/file.h"

namespace uscope::image::dwarf {
namespace {

constexpr size_t max_entries = 1'000'000;

std::string join(std::string_view directory, std::string_view name) {
  if (name.starts_with('/') || directory.empty()) return std::string(name);
  std::string path(directory);
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

}  // namespace

std::optional<LineProgram> LineProgram::of(const Unit& unit) {
  // A split unit's own table, if any, only serves its type units; its code is in the skeleton's.
  const Unit& holder = unit.skeleton && !unit.is_type_unit ? *unit.skeleton : unit;
  auto offset = holder.facts().line_program;
  if (!offset) return {};
  LineProgram program;
  program.comp_dir_ = holder.facts().directory;
  if (!program.read_header(holder, holder.file->section(SectionId::Line), *offset)) return {};
  return program;
}

bool LineProgram::read_header(const Unit& unit, Bytes section, uint64_t offset) {
  if (offset >= section.size()) return false;
  ByteReader reader(section, offset);
  uint64_t length = reader.u32();
  if (length == 0xffffffff) {
    length = reader.u64();
    offset_size_ = 8;
  }
  if (!reader || length > reader.remaining()) return false;
  uint64_t end = reader.position() + length;
  version_ = reader.u16();
  if (version_ < 2 || version_ > 5) return false;
  if (version_ >= 5) reader.skip(2);  // sizes of addresses and segments
  uint64_t header_length = reader.unsigned_of(offset_size_);
  if (!reader || header_length > end - std::min(end, reader.position())) return false;
  uint64_t program = reader.position() + header_length;
  min_instruction_ = reader.u8();
  if (version_ >= 4) reader.u8();  // operations an instruction: 1 but for VLIW machines
  default_is_statement_ = reader.u8() != 0;
  line_base_ = reader.read<int8_t>();
  line_range_ = reader.u8();
  opcode_base_ = reader.u8();
  if (!reader || line_range_ == 0 || opcode_base_ == 0) return false;
  for (unsigned i = 1; i < opcode_base_; i++) opcode_lengths_.push_back(reader.u8());
  bool named = version_ >= 5 ? read_names5(unit, reader) : read_names4(reader);
  if (!named || program > section.size()) return false;
  program_ = section.subspan(program, end - program);
  return true;
}

bool LineProgram::read_names4(ByteReader& reader) {
  directories_.push_back(comp_dir_);
  while (reader && directories_.size() < max_entries) {
    std::string_view directory = reader.cstring();
    if (directory.empty()) break;
    directories_.push_back(directory);
  }
  while (reader && files_.size() < max_entries) {
    std::string_view name = reader.cstring();
    if (name.empty()) break;
    uint64_t directory = reader.uleb128();
    reader.uleb128();  // time
    reader.uleb128();  // size
    files_.push_back({name, directory});
  }
  return bool(reader);
}

LineProgram::Format LineProgram::read_format(ByteReader& reader) {
  Format format;
  unsigned count = reader.u8();
  for (unsigned i = 0; i < count && reader; i++) {
    uint64_t content = reader.uleb128();
    format.emplace_back(content, reader.uleb128());
  }
  return format;
}

bool LineProgram::read_entry(const Unit& unit, ByteReader& reader, const Format& format,
                             FileEntry& entry) const {
  for (auto [content, form] : format) {
    if (form > 0xffff) return false;
    Attr attr = read_attr(reader, AttrSpec{0, uint16_t(form)}, offset_size_, 5);
    if (!reader) return false;
    if (content == DW_LNCT_path) entry.name = unit.string(attr);
    if (content == DW_LNCT_directory_index) entry.directory = attr.value;
  }
  return true;
}

bool LineProgram::read_names5(const Unit& unit, ByteReader& reader) {
  for (bool is_files : {false, true}) {
    Format format = read_format(reader);
    uint64_t count = reader.uleb128();
    if (!reader || count > max_entries || (format.empty() && count > 0)) return false;
    for (uint64_t i = 0; i < count; i++) {
      FileEntry entry;
      if (!read_entry(unit, reader, format, entry)) return false;
      is_files ? files_.push_back(entry) : directories_.push_back(entry.name);
    }
  }
  return bool(reader);
}

std::string LineProgram::file_name(uint64_t index) const {
  if (index < first_file() || index >= file_end()) return {};
  const FileEntry& entry = files_[index - first_file()];
  if (entry.name.starts_with('/')) return std::string(entry.name);
  std::string_view directory = entry.directory < directories_.size() ? directories_[entry.directory] : "";
  return join(directory.starts_with('/') ? std::string(directory) : join(comp_dir_, directory), entry.name);
}

namespace {

struct Machine {
  LineProgram::Row row;
  bool default_is_statement;

  void reset() { row = {.is_statement = default_is_statement}; }
};

// Extended opcodes. Returns whether a row is to be shown.
bool extended(ByteReader& reader, Machine& machine) {
  uint64_t length = reader.uleb128();
  if (length == 0 || length > reader.remaining()) {
    reader.skip(length == 0 ? 0 : UINT64_MAX);
    return false;
  }
  uint64_t end = reader.position() + length;
  bool show = false;
  switch (reader.u8()) {
    case DW_LNE_end_sequence:
      machine.row.end_sequence = true;
      show = true;
      break;
    case DW_LNE_set_address:
      machine.row.address = length == 9 ? reader.u64() : 0;
      break;
    default:
      break;
  }
  reader.seek(end);
  return show;
}

}  // namespace

void LineProgram::for_each_row(const std::function<bool(const Row&)>& visit) const {
  ByteReader reader(program_);
  Machine machine{{}, default_is_statement_};
  machine.reset();
  auto advance = [&](uint64_t operations) { machine.row.address += operations * min_instruction_; };
  auto show = [&] {
    bool go_on = visit(machine.row);
    machine.row.prologue_end = false;
    return go_on;
  };
  while (reader && !reader.at_end()) {
    uint8_t op = reader.u8();
    if (op >= opcode_base_) {
      unsigned adjusted = op - opcode_base_;
      advance(adjusted / line_range_);
      machine.row.line += uint32_t(line_base_ + int(adjusted % line_range_));
      if (!show()) return;
      continue;
    }
    switch (op) {
      case 0:
        if (extended(reader, machine)) {
          if (!show()) return;
          machine.reset();
        }
        break;
      case DW_LNS_copy:
        if (!show()) return;
        break;
      case DW_LNS_advance_pc:
        advance(reader.uleb128());
        break;
      case DW_LNS_advance_line:
        machine.row.line += uint32_t(reader.sleb128());
        break;
      case DW_LNS_set_file:
        machine.row.file = uint32_t(reader.uleb128());
        break;
      case DW_LNS_set_column:
        machine.row.column = uint32_t(reader.uleb128());
        break;
      case DW_LNS_negate_stmt:
        machine.row.is_statement = !machine.row.is_statement;
        break;
      case DW_LNS_const_add_pc:
        advance((255 - opcode_base_) / line_range_);
        break;
      case DW_LNS_fixed_advance_pc:
        machine.row.address += reader.u16();
        break;
      case DW_LNS_set_prologue_end:
        machine.row.prologue_end = true;
        break;
      case DW_LNS_set_basic_block:
      case DW_LNS_set_epilogue_begin:
        break;
      default:  // DW_LNS_set_isa and what newer versions add: the header says how many operands
        for (uint8_t i = 0; i < opcode_lengths_[op - 1] && reader; i++) reader.uleb128();
    }
  }
}

}  // namespace uscope::image::dwarf
