// Which expression says where a variable is at an address: DW_AT_location and its like, be it one expression
// or a list of them by address. .debug_loc (DWARF 4), GNU's split form of it, and .debug_loclists (5).
// Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>

#include "image/dwarf/unit.h"

namespace uscope::image::dwarf {

struct FoundExpression {
  Bytes expression;  // empty: listed, but as optimized out here
  bool from_list = false;
};

// Nothing: the attribute is a list that says nothing about this address, or cannot be read.
std::optional<FoundExpression> expression_at(const Unit& unit, const Attr& attr, uint64_t address);
// Where a parameter is as it was passed. An assignment that takes no instruction begins at the function's
// first one, too: gcc then lists the place before it with an empty range, and numbers the two (location
// views). Nothing: only what was assigned is listed. `holder` is the DIE that has the attribute.
std::optional<FoundExpression> expression_passed(const Die& holder, const Attr& attr, uint64_t entry);
// Whether the attribute is a location list at all.
bool is_location_list(const Unit& unit, const Attr& attr);

}  // namespace uscope::image::dwarf
