// Attaching the kernel's probes beside processes that another uscope traces in-process. A breakpoint set on
// code that is patched there would make that process crash: such sites are refused. Touches no process.
#pragma once

#include <future>
#include <vector>

#include "engine/engine.h"

namespace uscope::session {

// Begins to look, on a thread of its own, whether the in-process engine is at work on any process.
std::future<bool> look_for_inproc();

// As engine.attach(), of the kernel's engine, for the sites that do not meet patches; the others are among
// the failures. `look` was begun before, if sites are for all processes; else it need not be valid.
Result<engine::AttachReport> attach_beside_inproc(engine::Engine& engine,
                                                  const std::vector<engine::Attachment>& attachments,
                                                  std::future<bool>& look);

}  // namespace uscope::session
