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
// Whether the attribute is a location list at all.
bool is_location_list(const Unit& unit, const Attr& attr);

}  // namespace uscope::image::dwarf
