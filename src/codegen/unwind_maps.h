// Which maps the unwinder in a probe needs, and what it has to know of the kernel.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/unwind_tables.h"

namespace uscope::codegen {

// Where the kernel keeps what is asked about a mapping, in bytes from the start of each struct: from its BTF.
struct VmaLayout {
  uint32_t vm_start = 0, vm_end = 0, vm_pgoff = 0, vm_flags = 0, vm_file = 0;  // vm_area_struct
  uint32_t f_inode = 0;                                                        // file
  uint32_t i_ino = 0, i_sb = 0;                                                // inode
  uint32_t s_dev = 0;                                                          // super_block
};

// Indexes into Program::maps.
struct UnwindMaps {
  uint32_t rows = 0, rules = 0;
  uint32_t images = 0, mappings = 0;              // where the probe's code unwinds
  std::optional<uint32_t> state = {}, code = {};  // where the engine does
};

}  // namespace uscope::codegen
