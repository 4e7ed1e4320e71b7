// Where Rust functions leave their results. Rust promises no convention of its own, and debug info does not
// say which functions are `extern "C"`; but for most types its compilers have always done as C does, and for
// those the place is certain. Knows types only.
#pragma once

#include <optional>

#include "image/location.h"
#include "image/types.h"

namespace uscope::image {

// At the RET instruction. No pieces for a result of no size; nothing where the two conventions differ, or
// where the compiler's version matters.
std::optional<Location> rust_result(TypeId result, const TypeLookup& lookup);

}  // namespace uscope::image
