#include "image/exceptions/unwind_entries.h"

#include <dwarf.h>

#include <algorithm>

#include "image/exceptions/augmentation.h"
#include "image/exceptions/encoded_pointer.h"

namespace uscope::image {
namespace {

constexpr uint8_t omitted = 0xff;
constexpr uint64_t stack_pointer = 7;  // in DWARF's numbering for x86-64
// Many FDEs may name one CIE: what is read of it again and again has to be short.
constexpr size_t longest_augmentation = 16;
constexpr size_t longest_program = 256;

// The canonical frame address before the first instruction, as far as the question goes whether it is where
// a call leaves it: 8 above the stack pointer.
struct StartOfFrame {
  uint64_t base = 0;
  int64_t offset = 0;
  bool is_known = true;

  bool is_as_called() const { return is_known && base == stack_pointer && offset == 8; }
  void run(Bytes program);
  // False when the program goes on to later instructions, or says what we do not read.
  bool step(ByteReader& reader);
};

bool StartOfFrame::step(ByteReader& reader) {
  uint8_t op = reader.u8();
  switch (op & 0xc0) {
    case DW_CFA_advance_loc:
      return false;
    case DW_CFA_offset:
      reader.uleb128();
      return true;
    case DW_CFA_restore:
      return true;
    default:
      break;
  }
  switch (op) {
    case DW_CFA_nop:
      return true;
    case DW_CFA_def_cfa:
      base = reader.uleb128();
      offset = int64_t(reader.uleb128());
      return true;
    case DW_CFA_def_cfa_register:
      base = reader.uleb128();
      return true;
    case DW_CFA_def_cfa_offset:
      offset = int64_t(reader.uleb128());
      return true;
    case DW_CFA_def_cfa_expression:
      is_known = false;
      reader.skip(reader.uleb128());
      return true;
    case DW_CFA_undefined:
    case DW_CFA_same_value:
    case DW_CFA_restore_extended:
    case DW_CFA_GNU_args_size:
      reader.uleb128();
      return true;
    case DW_CFA_offset_extended:
    case DW_CFA_register:
    case DW_CFA_val_offset:
      reader.uleb128();
      reader.uleb128();
      return true;
    case DW_CFA_offset_extended_sf:
      reader.uleb128();
      reader.sleb128();
      return true;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
      reader.uleb128();
      reader.skip(reader.uleb128());
      return true;
    default:
      return false;
  }
}

void StartOfFrame::run(Bytes program) {
  ByteReader reader(program.first(std::min(program.size(), longest_program)));
  while (reader && !reader.at_end() && step(reader)) {
  }
}

// The length before a CIE or FDE: where its contents end, and the reader stands behind it.
std::optional<uint64_t> read_length(ByteReader& reader) {
  uint64_t length = reader.u32();
  if (length == 0xffffffff) length = reader.u64();
  if (!reader || length == 0 || length > reader.remaining()) return {};
  return reader.position() + length;
}

std::string_view short_text(ByteReader& reader) {
  uint64_t most = std::min<uint64_t>(reader.remaining(), longest_augmentation);
  ByteReader ahead = reader;
  std::string_view text = as_text(ahead.take(most));
  text = text.substr(0, text.find('\0'));
  reader.skip(text.size() + 1);
  return text;
}

}  // namespace

UnwindEntries::UnwindEntries(const ElfFile& file) {
  find_header(file);
  if (const Section* section = file.find_section(".eh_frame"))
    frames_ = {file.stored_bytes(*section), section->address.value};
  if (table_.bytes.empty()) list_entries();
}

// Version 1, the count as udata4, the pairs as sdata4 relative to the header: what every linker writes.
void UnwindEntries::find_header(const ElfFile& file) {
  const Segment* segment = file.find_segment(PT_GNU_EH_FRAME);
  if (segment == nullptr) return;
  Bytes header = file.stored_bytes(*segment);
  if (header.size() < 12 || header[0] != 1) return;
  ByteReader reader(header, 4);
  uint64_t address = segment->address.value;
  auto frames = read_encoded_pointer(reader, header[1], address);
  if (!frames) return;
  frames_ = {file.bytes_from(ImageAddr{*frames}), *frames};
  if (header[2] != DW_EH_PE_udata4 || header[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4)) return;
  uint64_t count = reader.u32();
  if (!reader) return;
  count = std::min<uint64_t>(count, reader.remaining() / 8);
  table_ = {header.subspan(reader.position(), count * 8), address + reader.position()};
  table_base_ = address;
}

std::optional<UnwindEntries::Cie> UnwindEntries::read_cie(uint64_t offset) const {
  if (offset >= frames_.bytes.size()) return {};
  ByteReader reader(frames_.bytes, offset);
  auto end = read_length(reader);
  if (!end || reader.u32() != 0) return {};
  uint8_t version = reader.u8();
  if (version != 1 && version != 3) return {};
  std::string_view augmentation = short_text(reader);
  Cie cie;
  reader.uleb128();                                           // alignment of code
  reader.sleb128();                                           // and of data
  version == 1 ? (void)reader.u8() : (void)reader.uleb128();  // the return address's register
  auto said = read_augmentation(reader, augmentation, frames_.address);
  if (!said) return {};
  cie.has_augmentation_data = said->has_data;
  cie.pointer_encoding = said->pointer_encoding;
  cie.lsda_encoding = said->lsda_encoding;
  if (!reader || reader.position() > *end) return {};
  cie.program = frames_.bytes.subspan(reader.position(), *end - reader.position());
  return cie;
}

std::optional<UnwindEntry> UnwindEntries::read_entry(uint64_t offset, uint64_t* next) const {
  *next = frames_.bytes.size();
  if (offset >= frames_.bytes.size()) return {};
  ByteReader reader(frames_.bytes, offset);
  auto end = read_length(reader);
  if (!end) return {};
  *next = *end;
  uint64_t here = reader.position();
  uint64_t back = reader.u32();
  if (back == 0 || back > here) return {};
  auto cie = read_cie(here - back);
  if (!cie) return {};
  auto begin = read_encoded_pointer(reader, cie->pointer_encoding, frames_.address);
  auto size = read_encoded_pointer(reader, cie->pointer_encoding & 0x0f, frames_.address);
  if (!begin || !size || *begin + *size < *begin) return {};
  UnwindEntry entry;
  entry.begin = *begin;
  entry.end = *begin + *size;
  if (cie->has_augmentation_data) {
    uint64_t data = reader.uleb128();
    uint64_t data_end = reader.position() + data;
    if (!reader || data > reader.remaining()) return {};
    if (cie->lsda_encoding != omitted && data != 0) {
      // A plain zero stands for none, whatever it is relative to.
      ByteReader plain(frames_.bytes, reader.position());
      auto stored = read_encoded_pointer(plain, cie->lsda_encoding & 0x0f, frames_.address);
      auto pointer = read_encoded_pointer(reader, cie->lsda_encoding, frames_.address);
      if (pointer && stored != 0) entry.lsda = *pointer;
    }
    reader.seek(data_end);
  }
  if (!reader || reader.position() > *end) return {};
  StartOfFrame start;
  start.run(cie->program);
  start.run(frames_.bytes.subspan(reader.position(), *end - reader.position()));
  entry.begins_inside_frame = !start.is_as_called();
  return entry;
}

std::optional<uint64_t> UnwindEntries::search_table(uint64_t address) const {
  auto word = [&](uint64_t pair, uint64_t at) {
    ByteReader reader(table_.bytes, pair * 8 + at);
    return table_base_ + uint64_t(int64_t(reader.read<int32_t>()));
  };
  uint64_t low = 0, high = table_.bytes.size() / 8;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (word(middle, 0) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return {};
  uint64_t entry = word(low - 1, 4);
  if (entry < frames_.address) return {};
  return entry - frames_.address;
}

void UnwindEntries::list_entries() {
  for (uint64_t offset = 0; offset < frames_.bytes.size();) {
    uint64_t next = 0;
    if (auto entry = read_entry(offset, &next)) listed_.push_back({entry->begin, entry->end, offset});
    if (next <= offset) break;
    offset = next;
  }
  std::ranges::sort(listed_, {}, &Listed::begin);
}

std::optional<UnwindEntry> UnwindEntries::at(uint64_t address) const {
  if (all_) {
    auto after = std::ranges::upper_bound(*all_, address, {}, &UnwindEntry::begin);
    if (after == all_->begin() || address >= std::prev(after)->end) return {};
    return *std::prev(after);
  }
  std::optional<uint64_t> offset;
  if (!table_.bytes.empty()) {
    offset = search_table(address);
  } else {
    auto after = std::ranges::upper_bound(listed_, address, {}, &Listed::begin);
    if (after != listed_.begin()) offset = std::prev(after)->offset;
  }
  if (!offset) return {};
  uint64_t next = 0;
  auto entry = read_entry(*offset, &next);
  if (!entry || address < entry->begin || address >= entry->end) return {};
  return entry;
}

const std::vector<UnwindEntry>& UnwindEntries::all() {
  if (all_) return *all_;
  std::vector<uint64_t> offsets;
  offsets.reserve(table_.bytes.size() / 8 + listed_.size());
  for (uint64_t pair = 0; pair < table_.bytes.size() / 8; ++pair) {
    ByteReader reader(table_.bytes, pair * 8 + 4);
    const uint64_t entry = table_base_ + uint64_t(int64_t(reader.read<int32_t>()));
    if (entry >= frames_.address) offsets.push_back(entry - frames_.address);
  }
  for (const Listed& listed : listed_) offsets.push_back(listed.offset);
  std::vector<UnwindEntry> entries;
  entries.reserve(offsets.size());
  uint64_t next = 0;
  for (uint64_t offset : offsets)
    if (auto entry = read_entry(offset, &next); entry && entry->begin < entry->end) entries.push_back(*entry);
  if (!std::ranges::is_sorted(entries, {}, &UnwindEntry::begin))
    std::ranges::sort(entries, {}, &UnwindEntry::begin);
  return all_.emplace(std::move(entries));
}

}  // namespace uscope::image
