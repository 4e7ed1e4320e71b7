// Where a Go program keeps the number of a goroutine: the offset of runtime.g's goid, as the program's own
// debug info has it, or, in a stripped one, as is known of the Go that built it. Refuses what it does not
// know: another offset would show another number as if it were right.
#pragma once

#include <optional>
#include <string_view>

#include "base/address.h"
#include "base/result.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// By the version as the program tells it, "go1.26.8". Nothing: not known.
std::optional<uint64_t> known_goid_offset(std::string_view go_version);

// From the runtime.g that a probe at `site` finds in R14. An Error where there is none to be found there.
Result<uint64_t> goid_offset(const symbols::ImageSymbols& image, ImageAddr site);

}  // namespace uscope::session
