#include "image/elf/versions.h"

#include <algorithm>
#include <cstring>

#include "image/elf/elf_file.h"

namespace uscope::image {
namespace {

constexpr uint16_t hidden_bit = 0x8000;
constexpr uint16_t first_named_index = 2;  // 0 is local, 1 is the image's own base version
// Version indices have 15 bits, so no list can truthfully be longer; and no real name is.
constexpr uint64_t most_versions = 0x7fff;
constexpr size_t longest_name = 1024;

std::string_view name_at(Bytes strings, uint64_t offset) {
  Bytes rest = slice_from(strings, offset);
  return cstring_at(rest.first(std::min(rest.size(), longest_name)), 0);
}

}  // namespace

SymbolVersions::SymbolVersions(const ElfFile& file, const DynamicInfo& dynamic, Bytes strings) {
  if (dynamic.versions.value == 0) return;
  indices_ = file.bytes_from(dynamic.versions);
  if (dynamic.version_definitions.value != 0) {
    read_definitions(file.bytes_from(dynamic.version_definitions), dynamic.version_definition_count, strings);
  }
  if (dynamic.version_needs.value != 0) {
    read_needs(file.bytes_from(dynamic.version_needs), dynamic.version_need_count, strings);
  }
}

void SymbolVersions::set(uint16_t index, Name name) {
  index &= uint16_t(~hidden_bit);
  if (index < first_named_index) return;
  if (index >= names_.size()) names_.resize(index + 1u);
  if (names_[index].text.empty()) names_[index] = name;
}

void SymbolVersions::read_definitions(Bytes table, uint64_t count, Bytes strings) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < std::min(count, most_versions); ++i) {
    ByteReader reader(table, at);
    auto definition = reader.read<Elf64_Verdef>();
    ByteReader names(table, at + definition.vd_aux);
    auto name = names.read<Elf64_Verdaux>();
    if (reader.failed() || names.failed()) return;
    if ((definition.vd_flags & VER_FLG_BASE) == 0)
      set(definition.vd_ndx, {name_at(strings, name.vda_name), true});
    if (definition.vd_next == 0) return;
    at += definition.vd_next;
  }
}

void SymbolVersions::read_needs(Bytes table, uint64_t count, Bytes strings) {
  uint64_t at = 0, left = most_versions;
  for (uint64_t i = 0; i < std::min(count, most_versions); ++i) {
    ByteReader reader(table, at);
    auto need = reader.read<Elf64_Verneed>();
    if (reader.failed()) return;
    uint64_t aux_at = at + need.vn_aux;
    for (unsigned k = 0; k < need.vn_cnt && left > 0; ++k, --left) {
      ByteReader aux_reader(table, aux_at);
      auto aux = aux_reader.read<Elf64_Vernaux>();
      if (aux_reader.failed()) break;
      set(aux.vna_other, {name_at(strings, aux.vna_name), false});
      if (aux.vna_next == 0) break;
      aux_at += aux.vna_next;
    }
    if (need.vn_next == 0) return;
    at += need.vn_next;
  }
}

SymbolVersions::Version SymbolVersions::of(uint64_t symbol_index) const {
  if (symbol_index >= indices_.size() / sizeof(uint16_t)) return {};
  uint16_t raw;
  std::memcpy(&raw, indices_.data() + symbol_index * sizeof raw, sizeof raw);
  uint16_t index = raw & uint16_t(~hidden_bit);
  if (index >= names_.size() || names_[index].text.empty()) return {};
  return {names_[index].text, names_[index].is_definition && (raw & hidden_bit) == 0};
}

}  // namespace uscope::image
