// Runs the frame instructions of one function and tells the rule that holds from each address on. Internal to
// unwind/.
#pragma once

#include <cstdint>
#include <functional>

#include "image/unwind/frame_entries.h"
#include "image/unwind/unwind_table.h"

namespace uscope::image {

// Calls `visit(address, rule)` in order of address, the first at entry.begin. False: the program is damaged,
// and what was told before holds only up to there.
bool run_frame_program(const FunctionEntry& entry, uint64_t section_address,
                       const std::function<void(uint64_t, const UnwindRule&)>& visit);

}  // namespace uscope::image
