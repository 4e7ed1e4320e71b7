// runtime.firstmoduledata, found without symbols: the structure in writable data that starts with a pointer
// to the pclntab and goes on with pointers into it. Internal to go/.
#pragma once

#include <cstdint>
#include <optional>

#include "image/elf/relocated.h"
#include "image/go/pclntab.h"

namespace uscope::image {

struct GoModuleData {
  uint64_t first_pc = 0, last_pc = 0;  // what the function table covers
  uint64_t text = 0;                   // runtime.text
  uint64_t funcdata = 0;               // go:func.*; 0 before Go 1.18
};

std::optional<GoModuleData> find_module_data(const RelocatedImage& image, ImageAddr table,
                                             const Pclntab::Header& header);

}  // namespace uscope::image
