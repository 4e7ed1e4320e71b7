// Where a probe on a function's entry sits: the cheapest instruction at which the stack and every register
// are still as they came.
#pragma once

#include "base/address.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// `address` itself, if it is not a function's first instruction or no other place is as good.
ImageAddr entry_address(const symbols::ImageSymbols& image, ImageAddr address);

}  // namespace uscope::session
