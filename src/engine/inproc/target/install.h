// Patching a stopped process: every thread that stands inside bytes about to change is led to the same
// instruction in its copy, then all bytes change. A patch whose place is not as planned is left out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/inproc/target/goroutines.h"
#include "engine/inproc/target/patch.h"
#include "process/ptrace.h"

namespace uscope::engine::inproc {

struct InstallReport {
  struct Refusal {
    size_t patch = 0;  // index as given
    std::string reason;
    bool may_pass = false;  // a moment later it may work
  };
  std::vector<Refusal> refused;
  uint32_t moved_threads = 0;
  uint32_t moved_frames = 0;  // saved program counters of interrupted code
  uint64_t stopped_ns = 0;    // how long the process stood still
};

// The patches are sorted by address and do not overlap. An Error: nothing was changed, or all was taken back.
// `go_runtimes`: those in the process, whose goroutines may be parked anywhere.
Result<InstallReport> install(process::SeizedProcess& process, std::span<const Patch> patches,
                              std::span<const GoRuntime> go_runtimes = {});

}  // namespace uscope::engine::inproc
