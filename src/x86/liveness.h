// Which registers and flags nobody needs any more at a place in a function: those that every path overwrites
// before it reads them. A probe may use them without saving. Errs only on the side of "needed": what is not
// followed, needs all.
#pragma once

#include "x86/flow.h"
#include "x86/registers.h"

namespace uscope::x86 {

struct Liveness {
  RegisterSet dead_registers = 0;
  FlagSet dead_flags = 0;  // of the arithmetic ones

  bool flags_dead() const { return dead_flags == arithmetic_flags; }
};

// Just before the instruction at the address runs. Calls and returns end what is followed: no convention
// passes the arithmetic flags across them, but registers may be (gcc's -fipa-ra, TLS descriptors keep what
// they know is kept).
Liveness liveness_at(const Flow& flow, uint64_t address);

}  // namespace uscope::x86
