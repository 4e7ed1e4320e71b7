// Compilers leave the padding of a struct out of its pieces; that is not the same as a member being optimized
// out. Internal to dwarf/.
#pragma once

#include <vector>

#include "image/abi_sysv.h"
#include "image/location.h"

namespace uscope::image::dwarf {

// For each byte of a type whether a member lies there; large types are cut at 4096.
std::vector<bool> used_bytes(TypeId type, const TypeLookup& lookup);
// Turns missing pieces that no member overlaps into zero bytes.
void mark_padding(Location& location, TypeId type, const TypeLookup& lookup);

}  // namespace uscope::image::dwarf
