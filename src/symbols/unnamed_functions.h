// The functions of a stripped file that no table names: what the unwinder sees as one piece, unless it is a
// `.cold` part of another. Such a part has its frame made already; or, where its function needs none, it lies
// unaligned as the compiler leaves rarely run code, and is neither called nor pointed to.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "symbols/image_symbols.h"

namespace uscope::symbols {

// By address. Their names (sub_1a2b0) are put into `names`, which must live as long.
std::vector<FunctionSymbol> find_unnamed_functions(const ImageSymbols& image, std::deque<std::string>& names);

}  // namespace uscope::symbols
