// The patch window at a function's entry, from its first instructions alone: enough for most functions, and a
// hundred times cheaper than following all of one's flow. The price is that jumps into the window are not
// seen: whoever uses this looks for them among all of the image's code and tables.
#pragma once

#include <optional>

#include "x86/entry_step.h"
#include "x86/flow.h"
#include "x86/window.h"

namespace uscope::x86 {

struct EntryWindow {
  Window window;
  std::optional<EntryStep> behind;  // the window is behind the first instruction or two, which do this
  // Nothing of the function reads the arithmetic flags before they are written.
  bool flags_dead = false;
};

// `code` begins with the function's entry; `read`: the registers that must be known as they were there.
// Nothing: what lies there takes a closer look.
std::optional<EntryWindow> entry_window(const CodeRange& code, RegisterSet read = all_registers);

}  // namespace uscope::x86
