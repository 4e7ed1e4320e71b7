// Compilers leave the padding of a struct out of its pieces; that is not the same as a member being optimized
// out. Internal to dwarf/.
#pragma once

#include "image/abi_sysv.h"
#include "image/location.h"

namespace uscope::image::dwarf {

// Turns missing pieces that no member overlaps into zero bytes.
void mark_padding(Location& location, TypeId type, const TypeLookup& lookup);

}  // namespace uscope::image::dwarf
