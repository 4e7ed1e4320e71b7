// Which instructions may fault, and whether a runtime that turns faults into panics finds its way from a copy
// of one. Such runtimes look the faulting instruction up by its address, and know nothing of copies. Keeps no
// state.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "x86/flow.h"

namespace uscope::x86 {

// By what it is told to do: it divides, traps, or goes to memory by a pointer. The stack, the image's own
// data and the thread's are taken to be there.
bool may_fault(Bytes instruction);

// Whether the return address is on top of the stack before an instruction. False: not for certain.
bool is_return_address_on_top(const Flow& flow, uint64_t address);
// The same for one that is reached straight on from the start of `function`.
bool is_return_address_on_top(const CodeRange& function, uint64_t address);

}  // namespace uscope::x86
