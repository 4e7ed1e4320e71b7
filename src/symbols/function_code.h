// A function's machine code, cut out of its image for x86's analysis. The bytes stay the image's.
#pragma once

#include <optional>

#include "symbols/image_symbols.h"
#include "x86/flow.h"

namespace uscope::symbols {

// Nothing if the file does not hold the code (a debug file, a symbol that lies).
std::optional<x86::FunctionCode> function_code(const ImageSymbols& image, const FunctionSymbol& function);

}  // namespace uscope::symbols
