// A function's machine code, cut out of its image for x86's analysis, with what code alone does not show: its
// `.cold` parts, where exceptions land, what relocations point into it. The bytes stay the image's.
#pragma once

#include <optional>

#include "symbols/image_symbols.h"
#include "x86/flow.h"

namespace uscope::symbols {

// The function itself: enough to find where its instructions begin and what its entry looks like. Nothing if
// the file does not hold the code (a debug file, a symbol that lies).
std::optional<x86::FunctionCode> function_code(const ImageSymbols& image, const FunctionSymbol& function);

// The function with all its parts and all the ways into them: what finding every exit needs, and dearer.
std::optional<x86::FunctionCode> whole_function_code(const ImageSymbols& image,
                                                     const FunctionSymbol& function);

}  // namespace uscope::symbols
