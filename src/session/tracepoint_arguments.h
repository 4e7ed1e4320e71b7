// What a script sees of a tracepoint's record as `args`: types for the compiler, places for code generation.
// Reads tracefs' description of the record; knows nothing of the kernel's own types.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/argument_places.h"
#include "lang/type_source.h"
#include "session/tracepoints.h"

namespace uscope::session {

lang::Type tracepoint_type(const TracepointField& field, bool is_system_call);

// Of an expanded attach point; nothing where the kernel describes no such tracepoint.
std::optional<std::vector<lang::NamedValue>> tracepoint_arguments(const lang::AttachSpec& probe);
Result<codegen::ArgumentPlace> tracepoint_place(const lang::AttachSpec& probe, std::string_view name);

}  // namespace uscope::session
