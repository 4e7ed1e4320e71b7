// Where Rust functions find their parameters and leave their results. Rust promises no convention of its own,
// and debug info does not say which functions are `extern "C"`; but for most types its compilers have always
// done as C does, and for those the place is certain. Knows types only.
#pragma once

#include <optional>
#include <vector>

#include "image/location.h"
#include "image/types.h"

namespace uscope::image {

// At the RET instruction. No pieces for a result of no size; nothing where the two conventions differ, or
// where the compiler's version matters.
std::optional<Location> rust_result(TypeId result, const TypeLookup& lookup);
// At the entry. Nothing for the first parameter that is no scalar, and for all after it.
std::vector<std::optional<Location>> rust_parameters(const std::vector<TypeId>& parameters, TypeId result,
                                                     const TypeLookup& lookup);

}  // namespace uscope::image
