// The entries of a map in the order in which they are shown: numbers and aggregates by value, the largest
// last; everything else by key. Equal values are in the order of their keys, so that output is reproducible.
#pragma once

#include <cstdint>
#include <vector>

#include "event/value.h"

namespace uscope::view {

// Pointers into `map`; at most the `top` last ones (0: all).
std::vector<const event::MapEntry*> ordered_entries(const event::MapContents& map, uint64_t top);

// `value` with its numbers divided as print(@map, top, divisor) asks.
event::Value divided(const event::Value& value, uint64_t divisor);

}  // namespace uscope::view
