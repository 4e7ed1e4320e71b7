// Whether C++ passes objects of a class by reference because copying or destroying them is not trivial. For
// debug info without DW_AT_calling_convention (gcc's): told from the members that the class declares.
// Internal to dwarf/.
#pragma once

#include <optional>

#include "image/dwarf/unit.h"

namespace uscope::image::dwarf {

// Nothing: it cannot be told.
std::optional<bool> is_passed_by_reference(const Die& class_die);

}  // namespace uscope::image::dwarf
