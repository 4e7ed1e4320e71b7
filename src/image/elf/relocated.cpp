#include "image/elf/relocated.h"

#include <algorithm>
#include <cstring>

#include "image/elf/elf_file.h"

namespace uscope::image {

RelocatedImage::RelocatedImage(const ElfFile& file) : file_(file) {
  DynamicInfo dynamic = file.dynamic();
  if (dynamic.relocations.value != 0) read_table(dynamic.relocations, dynamic.relocations_size);
  if (dynamic.packed_relocations.value != 0)
    read_packed(dynamic.packed_relocations, dynamic.packed_relocations_size);
  std::ranges::stable_sort(relocations_, {}, &Relocation::place);
}

void RelocatedImage::read_table(ImageAddr table, uint64_t size) {
  Bytes bytes = file_.bytes_from(table);
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), size));
  for (ByteReader reader(bytes); reader.remaining() >= sizeof(Elf64_Rela);) {
    auto raw = reader.read<Elf64_Rela>();
    if (ELF64_R_TYPE(raw.r_info) == R_X86_64_RELATIVE)
      relocations_.push_back({raw.r_offset, uint64_t(raw.r_addend)});
  }
}

// An even word is a place; an odd one's bits stand for the 63 words behind the last place told of.
void RelocatedImage::read_packed(ImageAddr table, uint64_t size) {
  constexpr uint64_t kWord = sizeof(uint64_t), kBits = 63;
  Bytes bytes = file_.bytes_from(table);
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), size));
  uint64_t next = 0;
  for (ByteReader reader(bytes); reader.remaining() >= kWord;) {
    const uint64_t word = reader.u64();
    if ((word & 1) == 0) {
      add_stored(word);
      next = word + kWord;
      continue;
    }
    for (uint64_t bits = word >> 1, place = next; bits != 0; bits >>= 1, place += kWord)
      if ((bits & 1) != 0) add_stored(place);
    next += kBits * kWord;
  }
}

void RelocatedImage::add_stored(uint64_t place) {
  if (auto stored = file_.bytes_at(ImageAddr{place}, sizeof(uint64_t)))
    relocations_.push_back({place, ByteReader(*stored).u64()});
}

std::optional<uint64_t> RelocatedImage::pointer_at(ImageAddr address) const {
  auto found = std::ranges::lower_bound(relocations_, address.value, {}, &Relocation::place);
  if (found != relocations_.end() && found->place == address.value) return found->value;
  auto stored = file_.bytes_at(address, sizeof(uint64_t));
  if (!stored) return std::nullopt;
  return ByteReader(*stored).u64();
}

bool RelocatedImage::changes(ImageAddr begin, uint64_t size) const {
  auto found = std::ranges::lower_bound(relocations_, begin.value, {}, &Relocation::place);
  return found != relocations_.end() && found->place - begin.value < size;
}

void RelocatedImage::apply(ImageAddr begin, std::span<uint8_t> copy) const {
  auto found = std::ranges::lower_bound(relocations_, begin.value, {}, &Relocation::place);
  for (; found != relocations_.end(); ++found) {
    uint64_t at = found->place - begin.value;
    if (at >= copy.size() || copy.size() - at < sizeof found->value) return;
    std::memcpy(copy.data() + at, &found->value, sizeof found->value);
  }
}

std::span<const uint64_t> RelocatedImage::values_in(uint64_t begin, uint64_t end) const {
  if (values_.empty() && !relocations_.empty()) {
    values_.reserve(relocations_.size());
    for (const Relocation& relocation : relocations_) values_.push_back(relocation.value);
    std::ranges::sort(values_);
    auto repeated = std::ranges::unique(values_);
    values_.erase(repeated.begin(), repeated.end());
  }
  auto first = std::ranges::lower_bound(values_, begin);
  return {first, std::max(first, std::ranges::lower_bound(values_, end))};
}

std::vector<ImageAddr> RelocatedImage::find_pointer(uint64_t value, size_t most) const {
  std::vector<ImageAddr> places;
  for (const Relocation& relocation : relocations_) {
    if (relocation.value == value && places.size() < most) places.push_back({relocation.place});
  }
  for (const Segment& load : file_.loads()) {
    if ((load.flags & PF_W) == 0) continue;
    Bytes bytes = file_.stored_bytes(load);
    uint64_t first = (8 - load.address.value % 8) % 8;
    for (uint64_t at = first; at + sizeof value <= bytes.size() && places.size() < most; at += sizeof value) {
      if (std::memcmp(bytes.data() + at, &value, sizeof value) == 0) places.push_back(load.address + at);
    }
  }
  std::ranges::sort(places);
  auto repeated = std::ranges::unique(places);
  places.erase(repeated.begin(), repeated.end());
  return places;
}

}  // namespace uscope::image
