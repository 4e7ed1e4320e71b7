#include "image/dwarf/frame.h"

#include <dwarf.h>

#include <algorithm>

#include "image/exceptions/augmentation.h"
#include "image/exceptions/encoded_pointer.h"

namespace uscope::image::dwarf {
struct FrameTable::Cie {
  uint64_t code_align = 1;
  int64_t data_align = 1;
  uint8_t pointer_encoding = DW_EH_PE_absptr;
  bool has_augmentation_data = false;
  Bytes program;
};

FrameTable::FrameTable(const ElfFile& image, Bytes debug_frame) : debug_{debug_frame, 0, false} {
  if (const Section* section = image.find_section(".eh_frame")) {
    eh_ = {image.stored_bytes(*section), section->address.value, true};
  }
  if (const Section* section = image.find_section(".eh_frame_hdr")) {
    header_ = image.stored_bytes(*section);
    header_address_ = section->address.value;
  }
}

std::optional<FrameTable::Cie> FrameTable::read_cie(const Block& block, uint64_t offset) const {
  if (offset >= block.bytes.size()) return {};
  ByteReader reader(block.bytes, offset);
  uint64_t length = reader.u32();
  unsigned offset_size = 4;
  if (length == 0xffffffff) {
    length = reader.u64();
    offset_size = 8;
  }
  if (!reader || length > reader.remaining()) return {};
  uint64_t end = reader.position() + length;
  uint64_t id = reader.unsigned_of(block.is_eh ? 4 : offset_size);
  bool is_cie = block.is_eh ? id == 0 : (id == 0xffffffff || id == UINT64_MAX);
  if (!is_cie) return {};
  uint8_t version = reader.u8();
  std::string_view augmentation = reader.cstring();
  if (version >= 4) reader.skip(2);  // address and segment sizes
  Cie cie;
  cie.code_align = reader.uleb128();
  cie.data_align = reader.sleb128();
  version == 1 ? (void)reader.u8() : (void)reader.uleb128();  // return address register
  auto said = read_augmentation(reader, augmentation, block.address);
  if (!said) return {};
  cie.has_augmentation_data = said->has_data;
  if (said->has_data) cie.pointer_encoding = said->pointer_encoding;
  if (!reader || reader.position() > end) return {};
  cie.program = block.bytes.subspan(reader.position(), end - reader.position());
  return cie;
}

std::optional<FrameTable::Fde> FrameTable::read_fde(const Block& block, uint64_t offset,
                                                    uint64_t* next) const {
  *next = block.bytes.size();
  if (offset >= block.bytes.size()) return {};
  ByteReader reader(block.bytes, offset);
  uint64_t length = reader.u32();
  unsigned offset_size = 4;
  if (length == 0xffffffff) {
    length = reader.u64();
    offset_size = 8;
  }
  if (!reader || length == 0 || length > reader.remaining()) return {};
  uint64_t id_position = reader.position();
  uint64_t end = id_position + length;
  *next = end;
  uint64_t id = reader.unsigned_of(block.is_eh ? 4 : offset_size);
  Fde fde;
  if (block.is_eh) {
    if (id == 0 || id > id_position) return {};
    fde.cie = id_position - id;
  } else {
    if (id == 0xffffffff || id == UINT64_MAX) return {};
    fde.cie = id;
  }
  auto cie = read_cie(block, fde.cie);
  if (!cie) return {};
  uint8_t encoding = block.is_eh ? cie->pointer_encoding : uint8_t(DW_EH_PE_absptr);
  auto begin = read_encoded_pointer(reader, encoding, block.address);
  auto size = read_encoded_pointer(reader, encoding & 0x0f, block.address);
  if (!begin || !size) return {};
  if (cie->has_augmentation_data) reader.skip(reader.uleb128());
  if (!reader || reader.position() > end) return {};
  fde.begin = *begin;
  fde.end = *begin + *size;
  fde.program = block.bytes.subspan(reader.position(), end - reader.position());
  return fde;
}

std::optional<uint64_t> FrameTable::search_header(uint64_t address) const {
  // Version 1, eh_frame_ptr pc-relative, count udata4, table datarel sdata4: what every linker writes.
  if (header_.size() < 12 || header_[0] != 1 || header_[3] != 0x3b) return {};
  ByteReader reader(header_, 4);
  if (!read_encoded_pointer(reader, header_[1], header_address_)) return {};
  uint64_t count = reader.unsigned_of(4);
  if (header_[2] != DW_EH_PE_udata4 || !reader) return {};
  uint64_t table = reader.position();
  count = std::min<uint64_t>(count, (header_.size() - table) / 8);
  auto entry = [&](uint64_t i, uint64_t at) {
    ByteReader word(header_, table + i * 8 + at);
    return header_address_ + uint64_t(int64_t(word.read<int32_t>()));
  };
  uint64_t low = 0, high = count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    (entry(middle, 0) <= address ? low : high) = entry(middle, 0) <= address ? middle + 1 : middle;
  }
  if (low == 0) return {};
  uint64_t fde = entry(low - 1, 4);
  if (fde < eh_.address) return {};
  return fde - eh_.address;
}

std::optional<FrameTable::Found> FrameTable::scan(const Block& block, uint64_t address) const {
  auto& listed = listed_[block.is_eh ? 1 : 0];
  if (!listed) {
    listed.emplace();
    uint64_t position = 0;
    while (position < block.bytes.size()) {
      uint64_t next = 0;
      if (auto fde = read_fde(block, position, &next)) listed->push_back({fde->begin, fde->end, position});
      if (next <= position) break;
      position = next;
    }
    std::sort(listed->begin(), listed->end(),
              [](const Listed& a, const Listed& b) { return a.begin < b.begin; });
  }
  auto after = std::upper_bound(listed->begin(), listed->end(), address,
                                [](uint64_t at, const Listed& entry) { return at < entry.begin; });
  if (after == listed->begin()) return {};
  --after;
  if (address >= after->end) return {};
  uint64_t next = 0;
  auto fde = read_fde(block, after->offset, &next);
  return fde ? std::optional(Found{&block, *fde}) : std::nullopt;
}

std::optional<FrameTable::Found> FrameTable::find(uint64_t address) const {
  if (auto offset = search_header(address)) {
    uint64_t next = 0;
    auto fde = read_fde(eh_, *offset, &next);
    if (fde && fde->begin <= address && address < fde->end) return Found{&eh_, *fde};
  } else if (auto found = scan(eh_, address)) {
    return found;
  }
  return scan(debug_, address);
}

std::optional<CfaRule> FrameTable::cfa_at(uint64_t address) const {
  auto found = find(address);
  return found ? run(*found, address) : std::nullopt;
}

std::optional<int64_t> FrameTable::deepest(uint64_t address) const {
  int64_t deepest = 0;
  auto found = find(address);
  if (!found || !run(*found, UINT64_MAX, &deepest)) return {};
  return deepest;
}

namespace {

constexpr uint32_t rsp = 7;

// Runs frame instructions up to an address, keeping only the CFA rule.
class CfaMachine {
 public:
  CfaMachine(uint64_t begin, uint64_t target, uint64_t code_align, int64_t data_align,
             uint64_t section_address)
      : location_(begin),
        target_(target),
        code_align_(code_align),
        data_align_(data_align),
        section_address_(section_address) {}

  // False: the program is broken or has moved past the target.
  bool run(Bytes program, uint8_t encoding) {
    ByteReader reader(program);
    while (reader && !reader.at_end()) {
      uint8_t op = reader.u8();
      if (!step(reader, op, encoding)) return false;
      if (location_ > target_) return false;
      settled_ = rule_;
      if (rule_.expression.empty() && rule_.base == rsp) deepest_ = std::max(deepest_, rule_.offset);
    }
    return bool(reader);
  }
  const CfaRule& rule() const { return settled_; }
  int64_t deepest() const { return deepest_; }
  bool is_broken() const { return broken_; }

 private:
  void advance(uint64_t delta) { location_ += delta * code_align_; }

  bool step(ByteReader& reader, uint8_t op, uint8_t encoding) {
    switch (op & 0xc0) {
      case DW_CFA_advance_loc:
        advance(op & 0x3f);
        return true;
      case DW_CFA_offset:
        reader.uleb128();
        return true;
      case DW_CFA_restore:
        return true;
      default:
        return extended(reader, op, encoding);
    }
  }

  bool extended(ByteReader& reader, uint8_t op, uint8_t encoding) {
    switch (op) {
      case DW_CFA_nop:
      case DW_CFA_GNU_window_save:
        return true;
      case DW_CFA_set_loc:
        if (auto at = read_encoded_pointer(reader, encoding, section_address_)) location_ = *at;
        return true;
      case DW_CFA_advance_loc1:
        advance(reader.u8());
        return true;
      case DW_CFA_advance_loc2:
        advance(reader.u16());
        return true;
      case DW_CFA_advance_loc4:
        advance(reader.u32());
        return true;
      case DW_CFA_remember_state:
        if (states_.size() < 1000) states_.push_back(rule_);
        return true;
      case DW_CFA_restore_state:
        if (states_.empty()) return fail();
        rule_ = states_.back();
        states_.pop_back();
        return true;
      case DW_CFA_def_cfa:
      case DW_CFA_def_cfa_sf:
      case DW_CFA_def_cfa_register:
      case DW_CFA_def_cfa_offset:
      case DW_CFA_def_cfa_offset_sf:
      case DW_CFA_def_cfa_expression:
        define(reader, op);
        return true;
      case DW_CFA_restore_extended:
      case DW_CFA_undefined:
      case DW_CFA_same_value:
      case DW_CFA_GNU_args_size:
        reader.uleb128();
        return true;
      case DW_CFA_offset_extended:
      case DW_CFA_register:
      case DW_CFA_val_offset:
      case DW_CFA_GNU_negative_offset_extended:
        reader.uleb128();
        reader.uleb128();
        return true;
      case DW_CFA_offset_extended_sf:
      case DW_CFA_val_offset_sf:
        reader.uleb128();
        reader.sleb128();
        return true;
      case DW_CFA_expression:
      case DW_CFA_val_expression:
        reader.uleb128();
        reader.skip(reader.uleb128());
        return true;
      default:
        return fail();
    }
  }

  void define(ByteReader& reader, uint8_t op) {
    if (op == DW_CFA_def_cfa_expression) {
      rule_ = {.expression = reader.take(reader.uleb128())};
      return;
    }
    if (op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_register) {
      rule_.base = uint32_t(reader.uleb128());
      rule_.expression = {};
    }
    if (op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_offset) rule_.offset = int64_t(reader.uleb128());
    if (op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_offset_sf) {
      rule_.offset = int64_t(uint64_t(reader.sleb128()) * uint64_t(data_align_));
    }
  }

  bool fail() {
    broken_ = true;
    return false;
  }

  uint64_t location_, target_, code_align_;
  int64_t data_align_;
  uint64_t section_address_;
  CfaRule rule_, settled_;
  int64_t deepest_ = 0;
  std::vector<CfaRule> states_;
  bool broken_ = false;
};

}  // namespace

std::optional<CfaRule> FrameTable::run(const Found& found, uint64_t address, int64_t* deepest) const {
  const Block& block = *found.block;
  const Fde& fde = found.fde;
  auto cie = read_cie(block, fde.cie);
  if (!cie) return {};
  uint8_t encoding = block.is_eh ? cie->pointer_encoding : uint8_t(DW_EH_PE_absptr);
  CfaMachine machine(fde.begin, address, cie->code_align, cie->data_align, block.address);
  if (!machine.run(cie->program, encoding)) return {};
  machine.run(fde.program, encoding);
  if (machine.is_broken()) return {};
  if (deepest != nullptr) *deepest = machine.deepest();
  return machine.rule();
}

}  // namespace uscope::image::dwarf
