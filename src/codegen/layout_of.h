// How a script's type lies in memory, on the stack, in a map or in a record: sizes and offsets for the code
// that writes it, and the same as an event::Layout for whoever reads it. Differs from lang's own sizes where
// a value carries more than the language counts: a buffer's length word.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "event/layout.h"
#include "lang/type_source.h"
#include "lang/typed_program.h"

namespace uscope::codegen {

constexpr uint64_t kStackHeader = 16;  // of a UserStack: pid, tid, count

uint64_t size_of(const lang::Type& type);
// Where each field of a tuple or record lies.
std::vector<uint64_t> field_offsets(const lang::Type& type);
// Whether some byte between or behind the fields belongs to none.
bool has_padding(const lang::Type& type);

// What a value of the type takes in the traced program's memory: a char array has no NUL of its own there.
uint64_t user_size(const lang::Type& type);

// What an aggregate or a plain value reads as in an expression.
lang::Type plain_type(const lang::Type& type);

// `types` (may be null) knows the structs that the script does not define itself. An Error if the type holds
// too much, or what is not known.
Result<event::Layout> layout_of(const lang::Type& type, const lang::TypedProgram& program,
                                const lang::TypeSource* types);
// The value of a map, with what its aggregation was asked for.
Result<event::Layout> value_layout(const lang::MapInfo& map, const lang::TypedProgram& program,
                                   const lang::TypeSource* types);
// The layout of a struct or union, from the script or from the program; nothing if neither has it.
std::optional<lang::StructLayout> find_struct(const lang::Type& type, const lang::TypedProgram& program,
                                              const lang::TypeSource* types);

}  // namespace uscope::codegen
