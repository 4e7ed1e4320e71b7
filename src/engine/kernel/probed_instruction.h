// Which instructions the kernel's uprobes do not take. It looks at them only when the file is mapped into a
// process that is probed, so an attachment made before that succeeds, and the probe is never hit. Pure.
#pragma once

#include "base/bytes.h"

namespace uscope::engine::kernel {

// `code` begins at the instruction.
bool can_probe(Bytes code);

}  // namespace uscope::engine::kernel
