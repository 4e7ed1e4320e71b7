// The System V calling convention of x86-64: where a function finds its parameters at its first instruction,
// and the caller its result after the return. Knows types only; whether a function really keeps to the
// convention (compilers may change local functions) is the caller's question.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "image/location.h"
#include "image/types.h"

namespace uscope::image {

// From DW_AT_producer.
Compiler compiler_of(std::string_view producer);

// The place of each parameter. Nothing for the first one whose class cannot be told, and for all after it.
// `result` matters: a large one comes with a hidden pointer in rdi.
std::vector<std::optional<Location>> sysv_parameters(const std::vector<TypeId>& parameters, TypeId result,
                                                     const TypeLookup& lookup,
                                                     Compiler compiler = Compiler::Unknown);
// Where the result is right after the return (also at the RET instruction itself). No pieces for void.
std::optional<Location> sysv_result(TypeId result, const TypeLookup& lookup,
                                    Compiler compiler = Compiler::Unknown);

}  // namespace uscope::image
