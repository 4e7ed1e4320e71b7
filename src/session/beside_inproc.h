// Attaching the kernel's probes beside processes that another uscope traces in-process. A breakpoint set on
// code that is patched there would make that process crash: such sites are refused. Touches no process.
#pragma once

#include <vector>

#include "engine/engine.h"

namespace uscope::session {

// As engine.attach(), of the kernel's engine, for the sites that do not meet patches; the others are among
// the failures.
Result<engine::AttachReport> attach_beside_inproc(engine::Engine& engine,
                                                  const std::vector<engine::Attachment>& attachments);

}  // namespace uscope::session
