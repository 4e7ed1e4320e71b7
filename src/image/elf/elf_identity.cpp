// What an image says about itself: type, build-id, links to debug files, the dynamic section, its compiler.
#include <fmt/format.h>

#include <algorithm>

#include "image/elf/elf_file.h"
#include "image/elf/notes.h"

namespace uscope::image {

std::string_view to_string(ElfType type) {
  switch (type) {
    case ElfType::Relocatable:
      return "relocatable object";
    case ElfType::StaticExecutable:
      return "static executable";
    case ElfType::StaticPie:
      return "static PIE executable";
    case ElfType::Executable:
      return "executable";
    case ElfType::PieExecutable:
      return "PIE executable";
    case ElfType::SharedLibrary:
      return "shared library";
    case ElfType::Core:
      return "core dump";
  }
  return "?";
}

std::string to_hex(Bytes bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (uint8_t byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

ElfType ElfFile::type() const {
  switch (header_.e_type) {
    case ET_REL:
      return ElfType::Relocatable;
    case ET_CORE:
      return ElfType::Core;
    case ET_EXEC:
      return find_segment(PT_INTERP) != nullptr ? ElfType::Executable : ElfType::StaticExecutable;
    default:
      break;
  }
  DynamicInfo info = dynamic();
  bool has_interpreter = find_segment(PT_INTERP) != nullptr;
  if ((info.flags_1 & DF_1_PIE) != 0) return has_interpreter ? ElfType::PieExecutable : ElfType::StaticPie;
  // Linkers older than DF_1_PIE: libc.so.6 has an interpreter too, but also a name that others link to.
  return has_interpreter && info.soname.empty() ? ElfType::PieExecutable : ElfType::SharedLibrary;
}

Bytes ElfFile::build_id() const {
  Bytes id;
  for_each_note(*this, [&](const Note& note) {
    if (note.owner != ELF_NOTE_GNU || note.type != NT_GNU_BUILD_ID || note.description.empty()) return true;
    id = note.description;
    return false;
  });
  return id;
}

std::optional<DebugLink> ElfFile::debug_link() const {
  const Section* section = find_section(".gnu_debuglink");
  if (section == nullptr) return std::nullopt;
  ByteReader reader(stored_bytes(*section));
  DebugLink link;
  link.name = reader.cstring();
  reader.align(4);
  link.crc = reader.u32();
  if (reader.failed() || link.name.empty()) return std::nullopt;
  return link;
}

std::optional<DebugAltLink> ElfFile::debug_alt_link() const {
  const Section* section = find_section(".gnu_debugaltlink");
  if (section == nullptr) return std::nullopt;
  ByteReader reader(stored_bytes(*section));
  DebugAltLink link;
  link.name = reader.cstring();
  link.build_id = reader.take(reader.remaining());
  if (reader.failed() || link.name.empty()) return std::nullopt;
  return link;
}

bool ElfFile::has_debug_info() const {
  return std::ranges::any_of(sections_, [](const Section& s) {
    return s.has_contents() && s.size != 0 && (s.name == ".debug_info" || s.name == ".zdebug_info");
  });
}

Result<std::optional<ElfFile>> ElfFile::mini_debug_info(uint64_t limit) const {
  const Section* section = find_section(".gnu_debugdata");
  if (section == nullptr) return std::optional<ElfFile>();
  std::string name = path_ + " (.gnu_debugdata)";
  auto unpacked = decompress_xz(stored_bytes(*section), limit);
  if (!unpacked) return fail(std::move(unpacked).error().while_doing("unpacking " + name));
  TRY(ElfFile inner, from_buffer(std::move(*unpacked), name));
  return std::optional<ElfFile>(std::move(inner));
}

std::string_view ElfFile::interpreter() const {
  const Segment* segment = find_segment(PT_INTERP);
  return segment == nullptr ? std::string_view() : cstring_at(stored_bytes(*segment), 0);
}

namespace {

// Entries whose values are offsets into a string table that may come later in the same list.
struct DynamicTexts {
  std::vector<uint64_t> needed;
  std::optional<uint64_t> soname, rpath, runpath;
};

void take_entry(const Elf64_Dyn& entry, DynamicInfo& info, DynamicTexts& texts) {
  // No real image needs more; a hostile one could otherwise make every entry a name.
  constexpr size_t most_needed = 4096;
  uint64_t value = entry.d_un.d_val;
  switch (entry.d_tag) {
    case DT_NEEDED:
      if (texts.needed.size() < most_needed) texts.needed.push_back(value);
      break;
    case DT_SONAME:
      texts.soname = value;
      break;
    case DT_RPATH:
      texts.rpath = value;
      break;
    case DT_RUNPATH:
      texts.runpath = value;
      break;
    case DT_FLAGS_1:
      info.flags_1 = value;
      break;
    case DT_STRTAB:
      info.string_table = {value};
      break;
    case DT_STRSZ:
      info.string_table_size = value;
      break;
    case DT_SYMTAB:
      info.symbol_table = {value};
      break;
    case DT_HASH:
      info.hash = {value};
      break;
    case DT_GNU_HASH:
      info.gnu_hash = {value};
      break;
    case DT_RELA:
      info.relocations = {value};
      break;
    case DT_RELASZ:
      info.relocations_size = value;
      break;
    case DT_RELR:
      info.packed_relocations = {value};
      break;
    case DT_RELRSZ:
      info.packed_relocations_size = value;
      break;
    case DT_VERSYM:
      info.versions = {value};
      break;
    case DT_VERNEED:
      info.version_needs = {value};
      break;
    case DT_VERNEEDNUM:
      info.version_need_count = value;
      break;
    case DT_VERDEF:
      info.version_definitions = {value};
      break;
    case DT_VERDEFNUM:
      info.version_definition_count = value;
      break;
    default:
      break;
  }
}

}  // namespace

DynamicInfo ElfFile::dynamic() const {
  DynamicInfo info;
  Bytes table;
  if (const Segment* segment = find_segment(PT_DYNAMIC)) {
    // By address where a segment backs it: tools that rewrite files keep that right rather than p_offset.
    table = bytes_at(segment->address, segment->file_size).value_or(stored_bytes(*segment));
  } else if (const Section* section = find_section(".dynamic")) {
    table = stored_bytes(*section);
  }
  DynamicTexts texts;
  ByteReader reader(table);
  while (reader.remaining() >= sizeof(Elf64_Dyn)) {
    auto entry = reader.read<Elf64_Dyn>();
    if (entry.d_tag == DT_NULL) break;
    info.present = true;
    take_entry(entry, info, texts);
  }
  Bytes strings = bytes_from(info.string_table);
  strings = strings.first(std::min<uint64_t>(strings.size(), info.string_table_size));
  auto text = [&](std::optional<uint64_t> at) { return at ? cstring_at(strings, *at) : std::string_view(); };
  info.soname = text(texts.soname);
  info.rpath = text(texts.rpath);
  info.runpath = text(texts.runpath);
  for (uint64_t at : texts.needed) info.needed.push_back(text(at));
  return info;
}

std::vector<std::string_view> ElfFile::comments() const {
  constexpr size_t most_comments = 64;
  std::vector<std::string_view> found;
  const Section* section = find_section(".comment");
  if (section == nullptr) return found;
  std::string_view rest = as_text(stored_bytes(*section));
  while (!rest.empty() && found.size() < most_comments) {
    std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (!text.empty() && std::ranges::find(found, text) == found.end()) found.push_back(text);
  }
  return found;
}

}  // namespace uscope::image
