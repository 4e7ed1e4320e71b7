// An image's data as the dynamic linker would leave it: with RELATIVE relocations applied, for a load bias of
// 0. In a position-independent image the pointers in the file itself may be zero. Only R_X86_64_RELATIVE:
// others need symbols of other images. They stand in two tables: with their values (DT_RELA), and packed, the
// values left in their places (DT_RELR). Borrows the ElfFile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"

namespace uscope::image {

class ElfFile;

class RelocatedImage {
 public:
  explicit RelocatedImage(const ElfFile& file);

  // The pointer stored at an address.
  std::optional<uint64_t> pointer_at(ImageAddr address) const;
  // Whether any relocation changes bytes in the range.
  bool changes(ImageAddr begin, uint64_t size) const;
  // Applies relocations to a copy of the bytes at `begin`.
  void apply(ImageAddr begin, std::span<uint8_t> copy) const;
  // The values in [begin, end) that relocations put somewhere, sorted, each once.
  std::span<const uint64_t> values_in(uint64_t begin, uint64_t end) const;
  // Places (8-byte aligned) in writable data that hold this pointer, in order; no more than `most`.
  std::vector<ImageAddr> find_pointer(uint64_t value, size_t most) const;

 private:
  struct Relocation {
    uint64_t place, value;
  };
  void read_table(ImageAddr table, uint64_t size);
  void read_packed(ImageAddr table, uint64_t size);
  void add_stored(uint64_t place);

  const ElfFile& file_;
  std::vector<Relocation> relocations_;   // by place
  mutable std::vector<uint64_t> values_;  // of them, sorted, each once; made when first asked for
};

}  // namespace uscope::image
