// Perf events that run a program: uprobes one by one, timers on each processor, software events and
// tracepoints. Each function hands back an owned fd (an event, or a link that holds one); closing it ends the
// event. Closing a uprobe event waits for the kernel's other processors, some milliseconds each: for
// thousands of sites see uprobe_multi.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/kernel/bpf_calls.h"

namespace uscope::engine::kernel {

// The number of the kernel's uprobe event source, or nothing: Linux before 4.17, or a hidden /sys.
std::optional<uint32_t> uprobe_event_type();

struct UprobeEvent {
  uint32_t type = 0;  // of uprobe_event_type()
  std::string file;
  FileOffset offset;
  std::optional<FileOffset> semaphore;
  bool is_return = false;
  std::optional<pid_t> pid;
};
OrErrno<Fd> open_uprobe_event(const UprobeEvent& event);
// An event of tracefs: a tracepoint, or a uprobe that was defined there.
OrErrno<Fd> open_tracepoint_event(uint64_t id, std::optional<pid_t> pid);

// Runs the program at the event from now on, and returns what keeps it so. A cookie needs Linux 5.15.
OrErrno<Fd> run_at_event(Fd event, int program, uint64_t cookie);

// A sampling event on every online processor: runs the program once in `period` (nanoseconds of a clock,
// occurrences of the others).
Result<std::vector<Fd>> run_sampled(uint64_t software_event, uint64_t period, int program);

}  // namespace uscope::engine::kernel
