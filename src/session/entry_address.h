// Where a probe on a function's entry sits: at an instruction at which the stack and every register are still
// as they came. The kernel's probes cost the less the simpler the instruction; the in-process engine does not
// mind, and looks at the code itself. In Go both stay behind the stack check where they can: it runs again
// when the stack has grown.
#pragma once

#include "base/address.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// `address` itself, if it is not a function's first instruction or no other place is as good.
ImageAddr entry_address(const symbols::ImageSymbols& image, ImageAddr address, bool is_inproc);

}  // namespace uscope::session
