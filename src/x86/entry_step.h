// A function's first instruction as seen from behind it: what it has changed, if that is known so exactly
// that the call can be shown as it was before. A probe there leaves the first instruction alone, and so does
// not meet what another tool sets on the function's entry. Keeps no state.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "x86/registers.h"

namespace uscope::x86 {

struct EntryStep {
  unsigned length = 0;       // of what was stepped over
  unsigned last_length = 0;  // of its last instruction
  int32_t stack_change = 0;  // rsp behind it, minus rsp before
  RegisterSet changed = 0;   // other registers whose values are lost
  // The last instruction sets flags, and does so again, with nothing else changed, when it is run a second
  // time.
  bool can_repeat = false;
};

// Over one instruction. Nothing: it may fault, which a call must be seen before, or writes memory other than
// what it pushes, or goes somewhere else, or is too unusual to be sure.
std::optional<EntryStep> entry_step(Bytes instruction);

// Over the first instruction of a function; if that only marks it (endbr64, nop) and `past_marks`, over the
// next one as well, where probes of this program's own kernel engine would be. Nothing if a register of
// `read` is lost.
std::optional<EntryStep> step_behind_entry(Bytes function, RegisterSet read, bool past_marks);

}  // namespace uscope::x86
