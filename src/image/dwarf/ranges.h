// Range lists: which addresses a DIE covers. .debug_ranges (DWARF 4) and .debug_rnglists (5), also of split
// units. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <functional>

#include "image/dwarf/unit.h"

namespace uscope::image::dwarf {

// Calls visit(low, high) for every non-empty range of the DIE, low_pc/high_pc or DW_AT_ranges.
// False when it has neither.
bool for_each_range(const Die& die, const std::function<void(uint64_t, uint64_t)>& visit);
// DW_AT_low_pc, or the lowest address of its ranges; nothing for DIEs without code.
std::optional<uint64_t> entry_of(const Die& die);

}  // namespace uscope::image::dwarf
