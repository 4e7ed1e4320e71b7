// Go's calling conventions on amd64: ABIInternal (registers, since Go 1.17) and ABI0 (the stack, before that
// and for assembly). Where parameters are at a function's first instruction and results at its return.
// Knows types only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "image/abi_sysv.h"
#include "image/location.h"
#include "image/types.h"

namespace uscope::image {

// A basic value that a Go type is made of, in the order of memory: a string is two, a slice three.
struct GoComponent {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool is_float = false;
};

// Nothing for a type that registers cannot hold (an array of more than one element, an unknown type).
std::optional<std::vector<GoComponent>> go_components(TypeId type, const TypeLookup& lookup);

struct GoPlace {
  Location location;
  bool in_registers = false;
  uint64_t stack_offset = 0;  // of a stack-assigned one: from the first byte above the return address
};

struct GoCall {
  std::vector<GoPlace> parameters;
  std::vector<GoPlace> results;  // at the RET instruction
};

// Nothing when a type's size is not known.
std::optional<GoCall> go_call(const std::vector<TypeId>& parameters, const std::vector<TypeId>& results,
                              bool in_registers, const TypeLookup& lookup);

// One piece for each component, padding between them filled in. Registers are DWARF numbers.
Location go_pieces(const std::vector<GoComponent>& components, const std::vector<uint32_t>& registers,
                   uint64_t size);

}  // namespace uscope::image
