// The runtime's _func record, in each of its shapes. Internal to go/.
#pragma once

#include "image/go/pclntab.h"

namespace uscope::image {

struct Pclntab::Record {
  uint64_t entry = 0;  // as stored: an address, or from Go 1.18 on a distance from runtime.text
  int32_t name = 0;
  uint32_t deferreturn = 0;
  uint32_t frame_sizes = 0, files = 0, lines = 0;  // offsets of pc-value tables; 0: none
  uint32_t pcdata_count = 0, funcdata_count = 0;
  uint32_t unit = 0;
  int32_t start_line = 0;
  uint64_t pcdata = 0, funcdata = 0;  // offsets in the table
};

struct Pclntab::InlineEntry {
  int32_t name = 0;
  int32_t parent_pc = 0;
  int32_t start_line = 0;
};

}  // namespace uscope::image
