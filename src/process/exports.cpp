#include "process/exports.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace uscope::process {
namespace {

constexpr size_t kMostSegments = 32, kMostEntries = 128;
// A chain is a few symbols long; this one is another program's, and may be anything.
constexpr uint32_t kMostSteps = 1000;

struct Tables {
  ProcessAddr hash, symbols, strings;
};

std::optional<Tables> find_tables(const RemoteMemory& memory, const MappedImage& image) {
  if (image.mappings.front().offset.value != 0) return std::nullopt;
  std::array<uint8_t, sizeof(Elf64_Ehdr) + kMostSegments * sizeof(Elf64_Phdr)> start{};
  const size_t size = memory.read_some(image.start(), start);
  Elf64_Ehdr header;
  std::memcpy(&header, start.data(), sizeof header);
  if (size < sizeof header || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  uint64_t bias = image.start().value, dynamic = 0, dynamic_size = 0;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    if (at > size || size - at < sizeof segment) break;
    std::memcpy(&segment, start.data() + at, sizeof segment);
    if (segment.p_type == PT_LOAD && segment.p_offset == 0) bias = image.start().value - segment.p_vaddr;
    if (segment.p_type != PT_DYNAMIC) continue;
    dynamic = segment.p_vaddr;
    dynamic_size = segment.p_memsz;
  }
  if (dynamic == 0) return std::nullopt;
  std::array<Elf64_Dyn, kMostEntries> entries{};
  const uint64_t wanted = std::min<uint64_t>(dynamic_size, sizeof entries);
  memory.read_some({bias + dynamic}, {reinterpret_cast<uint8_t*>(entries.data()), wanted});
  Tables tables;
  for (const Elf64_Dyn& entry : entries) {
    // glibc adds to them where the image was loaded, other linkers don't.
    const uint64_t value = entry.d_un.d_ptr;
    const ProcessAddr address{value < image.start().value ? value + bias : value};
    if (entry.d_tag == DT_GNU_HASH) tables.hash = address;
    if (entry.d_tag == DT_SYMTAB) tables.symbols = address;
    if (entry.d_tag == DT_STRTAB) tables.strings = address;
    if (entry.d_tag == DT_NULL) break;
  }
  if (tables.hash.value == 0 || tables.symbols.value == 0 || tables.strings.value == 0) return std::nullopt;
  return tables;
}

uint32_t hash_of(std::string_view name) {
  uint32_t hash = 5381;
  for (char each : name) hash = hash * 33 + uint8_t(each);
  return hash;
}

class HashTable {
 public:
  HashTable(const RemoteMemory& memory, const Tables& tables) : memory_(memory), tables_(tables) {
    auto head = memory.read_value<Head>(tables.hash);
    if (head) head_ = *head;
  }

  bool has(std::string_view name) const {
    if (head_.buckets == 0 || head_.bloom_words == 0) return false;
    const uint32_t hash = hash_of(name);
    const ProcessAddr bloom = tables_.hash + sizeof head_;
    auto word = memory_.read_value<uint64_t>(bloom + hash / 64 % head_.bloom_words * sizeof(uint64_t));
    if (!word || !(*word >> hash % 64 & *word >> (hash >> (head_.shift & 31)) % 64 & 1)) return false;
    const ProcessAddr buckets = bloom + uint64_t(head_.bloom_words) * sizeof(uint64_t);
    auto first = memory_.read_value<uint32_t>(buckets + uint64_t(hash % head_.buckets) * 4);
    if (!first || *first < head_.first) return false;
    const ProcessAddr chains = buckets + uint64_t(head_.buckets) * 4;
    for (uint32_t i = *first; i - *first < kMostSteps; ++i) {
      auto link = memory_.read_value<uint32_t>(chains + uint64_t(i - head_.first) * 4);
      if (!link) return false;
      if ((*link | 1) == (hash | 1) && is_called(i, name)) return true;
      if (*link & 1) return false;
    }
    return false;
  }

 private:
  struct Head {
    uint32_t buckets = 0, first = 0, bloom_words = 0, shift = 0;
  };

  bool is_called(uint32_t index, std::string_view name) const {
    auto symbol = memory_.read_value<Elf64_Sym>(tables_.symbols + uint64_t(index) * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_shndx == SHN_UNDEF) return false;
    auto found = memory_.read_cstring(tables_.strings + symbol->st_name, name.size() + 1);
    return found && *found == name;
  }

  const RemoteMemory& memory_;
  const Tables& tables_;
  Head head_;
};

}  // namespace

bool exports_any(const RemoteMemory& memory, const MappedImage& image,
                 std::span<const std::string_view> names) {
  const auto tables = find_tables(memory, image);
  if (!tables) return false;
  const HashTable table(memory, *tables);
  return std::ranges::any_of(names, [&](std::string_view name) { return table.has(name); });
}

}  // namespace uscope::process
