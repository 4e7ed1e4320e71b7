// Which code .eh_frame describes as one piece (an FDE), and where exceptions find their way in it (its LSDA).
// A function's `.cold` part has an entry of its own. Finds entries through .eh_frame_hdr, which also images
// without section headers have; without it, by reading .eh_frame once. Borrows the ElfFile. Does not unwind
// (image/dwarf/frame.h knows the frame's rules).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "image/elf/elf_file.h"

namespace uscope::image {

struct UnwindEntry {
  uint64_t begin = 0, end = 0;  // image addresses
  std::optional<uint64_t> lsda;
  // Whether the frame is already made at its first instruction: it continues a function, and is none itself.
  bool begins_inside_frame = false;
};

class UnwindEntries {
 public:
  explicit UnwindEntries(const ElfFile& file);

  // The entry that describes the code at an address.
  std::optional<UnwindEntry> at(uint64_t address) const;
  // Every entry that can be read, by address. Kept: at() is faster from then on. Not while other threads ask.
  const std::vector<UnwindEntry>& all();

 private:
  struct Block {
    Bytes bytes;
    uint64_t address = 0;
  };
  struct Cie {
    uint8_t pointer_encoding = 0;
    uint8_t lsda_encoding = 0xff;  // omitted
    bool has_augmentation_data = false;
    Bytes program;
  };
  struct Listed {
    uint64_t begin, end, offset;
  };

  void find_header(const ElfFile& file);
  std::optional<Cie> read_cie(uint64_t offset) const;
  std::optional<UnwindEntry> read_entry(uint64_t offset, uint64_t* next) const;
  std::optional<uint64_t> search_table(uint64_t address) const;
  void list_entries();

  Block frames_;                // .eh_frame, or what follows its start in its segment
  Block table_;                 // .eh_frame_hdr's sorted pairs, 8 bytes each
  uint64_t table_base_ = 0;     // what the pairs are relative to
  std::vector<Listed> listed_;  // by begin; only without a table
  std::optional<std::vector<UnwindEntry>> all_;
};

}  // namespace uscope::image
