#include "image/unwind/frame_entries.h"

#include <dwarf.h>

#include "image/exceptions/augmentation.h"
#include "image/exceptions/encoded_pointer.h"
#include "image/unwind/unwind_table.h"

namespace uscope::image {
namespace {

struct EntryHead {
  uint64_t id = 0;
  uint64_t id_position = 0;
  uint64_t end = 0;
};

// Leaves the reader behind the id. Nothing: the section ends here.
std::optional<EntryHead> read_head(ByteReader& reader, bool is_eh) {
  uint64_t length = reader.u32();
  unsigned offset_size = 4;
  if (length == 0xffffffff) {
    length = reader.u64();
    offset_size = 8;
  }
  if (!reader || length == 0 || length > reader.remaining()) return {};
  EntryHead head;
  head.id_position = reader.position();
  head.end = head.id_position + length;
  head.id = reader.unsigned_of(is_eh ? 4 : offset_size);
  if (!is_eh && offset_size == 4 && head.id == 0xffffffff) head.id = UINT64_MAX;
  if (!reader || reader.position() > head.end) return {};
  return head;
}

std::optional<CommonEntry> read_common(const FrameSection& section, uint64_t offset) {
  if (offset >= section.bytes.size()) return {};
  ByteReader reader(section.bytes, offset);
  auto head = read_head(reader, section.is_eh);
  if (!head || head->id != (section.is_eh ? 0 : UINT64_MAX)) return {};
  uint8_t version = reader.u8();
  if (version != 1 && version != 3 && version != 4) return {};
  std::string_view letters = reader.cstring();
  if (version == 4) {
    if (reader.u8() != 8 || reader.u8() != 0) return {};  // address and segment size
  }
  CommonEntry entry;
  entry.code_align = reader.uleb128();
  entry.data_align = reader.sleb128();
  uint64_t return_column = version == 1 ? reader.u8() : reader.uleb128();
  if (return_column != kReturnColumn || entry.code_align > 64) return {};
  auto said = read_augmentation(reader, letters, section.address);
  if (!said) return {};
  entry.has_augmentation_data = said->has_data;
  entry.pointer_encoding = said->pointer_encoding;
  entry.is_signal_frame = said->is_signal_frame;
  if (!reader || reader.position() > head->end) return {};
  entry.program = section.bytes.subspan(reader.position(), head->end - reader.position());
  return entry;
}

}  // namespace

bool for_each_entry(const FrameSection& section, const std::function<void(const FunctionEntry&)>& visit) {
  std::unordered_map<uint64_t, std::optional<CommonEntry>> commons;
  bool is_whole = true;
  uint64_t position = 0;
  while (position + 4 <= section.bytes.size()) {
    ByteReader reader(section.bytes, position);
    auto head = read_head(reader, section.is_eh);
    // A length of 0 ends .eh_frame; crtend.o's may be followed by more (a linker that merged by hand).
    if (!head) {
      uint32_t length = ByteReader(section.bytes, position).u32();
      if (length != 0) return false;
      if (section.ends_at_zero) break;
      position += 4;
      continue;
    }
    position = head->end;
    if (head->id == (section.is_eh ? 0 : UINT64_MAX)) continue;
    if (section.is_eh && head->id > head->id_position) {
      is_whole = false;
      continue;
    }
    uint64_t at = section.is_eh ? head->id_position - head->id : head->id;
    auto [common, is_new] = commons.try_emplace(at);
    if (is_new) common->second = read_common(section, at);
    if (!common->second) {
      is_whole = false;
      continue;
    }
    const CommonEntry& shared = *common->second;
    FunctionEntry entry;
    entry.common = &shared;
    entry.pointer_encoding = section.is_eh ? shared.pointer_encoding : uint8_t(DW_EH_PE_absptr);
    auto begin = read_encoded_pointer(reader, entry.pointer_encoding, section.address);
    auto size = read_encoded_pointer(reader, entry.pointer_encoding & 0x0f, section.address);
    if (shared.has_augmentation_data) reader.skip(reader.uleb128());
    if (!begin || !size || !reader || reader.position() > head->end || *size > UINT64_MAX - *begin) {
      is_whole = false;
      continue;
    }
    entry.begin = *begin;
    entry.end = *begin + *size;
    entry.program = section.bytes.subspan(reader.position(), head->end - reader.position());
    visit(entry);
  }
  return is_whole;
}

}  // namespace uscope::image
