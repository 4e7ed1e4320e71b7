// What a function returns, and where that is at its RET: from its type and from the calling convention that
// is known to hold there. What no convention proves is an Error that says why, never a guess. One place for
// scripts and for probes that are kept in the kernel.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "image/location.h"
#include "session/result_use.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// Nothing where the debug info does not know the function, or not as one with a type (assembly). Go's may be
// several, others' one; none: the function returns nothing.
std::optional<std::vector<image::TypeId>> result_types(const symbols::ImageSymbols& image, ImageAddr entry);

// Their places, in the same order. Where the types are not known: the register that holds a number, if the
// function can return one there. `use` is the image's.
Result<std::vector<image::Location>> result_places(const symbols::ImageSymbols& image, ImageAddr entry,
                                                   const ResultUse& use);

}  // namespace uscope::session
