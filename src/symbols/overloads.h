// A function's name as short as it can be: without its parameters, unless another function of the same file
// has the same name with other parameters. Pure; looks at names only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "symbols/image_symbols.h"

namespace uscope::symbols {

// `name` as the table spells it; `all` are the functions of its file.
std::string distinct_name(std::string_view name, std::span<const FunctionSymbol> all);

}  // namespace uscope::symbols
