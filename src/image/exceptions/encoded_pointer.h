// Pointers as .eh_frame, .eh_frame_hdr and .gcc_except_table encode them (DW_EH_PE_*). Only what linkers
// write: absolute, pc-relative and section-relative; an indirect pointer is not followed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace uscope::image {

// `section_address`: where the reader's bytes begin. Nothing if the encoding is unknown or the bytes end.
std::optional<uint64_t> read_encoded_pointer(ByteReader& reader, uint8_t encoding, uint64_t section_address);

}  // namespace uscope::image
