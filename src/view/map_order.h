// The entries of a map in the order in which they are shown: numbers and aggregates by value, the largest
// last; everything else by key. Equal values are in the order of their keys, so that output is reproducible.
#pragma once

#include <cstdint>
#include <vector>

#include "event/value.h"

namespace uscope::view {

// Pointers into `map`; at most the `top` last ones (0: all). Series have no order of size: all of them are
// shown, as bpftrace does it.
std::vector<const event::MapEntry*> ordered_entries(const event::MapContents& map, uint64_t top);

// `value` with its numbers divided as print(@map, top, divisor) asks; a series stays as it is.
event::Value divided(const event::Value& value, uint64_t divisor);

}  // namespace uscope::view
