// Where in a process's address space uscope puts its memory: within reach of a 32-bit displacement from the
// code it serves, or below all stacks, and out of the way of what grows (the heap upwards, the stack
// downwards). Only looks at maps; maps nothing.
#pragma once

#include <optional>

#include "engine/inproc/target/patch.h"
#include "process/maps.h"

namespace uscope::engine::inproc {

// A start for `size` bytes from which every byte of `reach` can be named by a signed 32-bit displacement,
// and from every byte of which it can. `taken`: what is free in the maps but promised to somebody already.
std::optional<ProcessAddr> find_room(const process::Maps& maps, AddressSpan reach, uint64_t size,
                                     std::span<const AddressSpan> taken = {});

// A start for `size` bytes below all stacks that the process's threads have or will be given, and far above
// what 32-bit pointers reach. `random` chooses among many: nobody should know it beforehand.
std::optional<ProcessAddr> find_room_below_stacks(const process::Maps& maps, uint64_t size, uint64_t random);

}  // namespace uscope::engine::inproc
