// Call frame information, as far as variables need it: where the canonical frame address is at an
// instruction. Reads .eh_frame (through .eh_frame_hdr's table when there is one) and .debug_frame. Does not
// unwind. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf {

// CFA = register + offset, or an expression.
struct CfaRule {
  uint32_t base = 0;
  int64_t offset = 0;
  Bytes expression;  // not empty: this instead
};

class FrameTable {
 public:
  FrameTable(const ElfFile& image, Bytes debug_frame);
  std::optional<CfaRule> cfa_at(uint64_t address) const;
  // The most that the CFA is above the stack pointer, where it is counted from that, in the function that
  // holds the address.
  std::optional<int64_t> deepest(uint64_t address) const;

 private:
  struct Block {  // .eh_frame or .debug_frame
    Bytes bytes;
    uint64_t address = 0;
    bool is_eh = false;
  };
  struct Fde {
    uint64_t begin = 0, end = 0;
    uint64_t cie = 0;  // offset of its CIE
    Bytes program;
  };
  struct Cie;
  std::optional<Cie> read_cie(const Block& block, uint64_t offset) const;
  std::optional<Fde> read_fde(const Block& block, uint64_t offset, uint64_t* next) const;
  struct Found {
    const Block* block;
    Fde fde;
  };
  std::optional<CfaRule> run(const Found& found, uint64_t address, int64_t* deepest = nullptr) const;
  std::optional<uint64_t> search_header(uint64_t address) const;
  std::optional<Found> scan(const Block& block, uint64_t address) const;
  std::optional<Found> find(uint64_t address) const;

  Block eh_, debug_;
  Bytes header_;
  uint64_t header_address_ = 0;
  // After a search without a table: where each function's entry is.
  struct Listed {
    uint64_t begin, end, offset;
  };
  mutable std::optional<std::vector<Listed>> listed_[2];
};

}  // namespace uscope::image::dwarf
