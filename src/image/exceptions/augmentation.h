// What a CIE's augmentation letters ("zPLR") say of the entries that use it. Letters that are not known end
// the reading; the data's own length leads past them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace uscope::image {

struct Augmentation {
  bool has_data = false;  // each entry carries a length and data of its own
  uint8_t pointer_encoding = 0;
  uint8_t lsda_encoding = 0xff;  // DW_EH_PE_omit
  bool is_signal_frame = false;
};

// Leaves the reader behind the augmentation's data. Nothing: not one that can be read past.
std::optional<Augmentation> read_augmentation(ByteReader& reader, std::string_view letters,
                                              uint64_t section_address);

}  // namespace uscope::image
