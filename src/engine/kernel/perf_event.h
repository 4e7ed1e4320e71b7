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

struct SampledEvent {
  uint32_t type = PERF_TYPE_SOFTWARE;  // or PERF_TYPE_HARDWARE
  uint64_t event = 0;
  uint64_t period = 0;  // nanoseconds of a clock, occurrences of the others
};
// On every online processor: runs the program once in a period.
Result<std::vector<Fd>> run_sampled(const SampledEvent& event, int program);

struct Watch {
  uint64_t address = 0;
  uint32_t length = 0;    // 1, 2, 4 or 8
  uint32_t accesses = 0;  // HW_BREAKPOINT_R, _W, _X
  std::optional<pid_t> pid;
};
// Runs the program whenever the memory is touched: by the process's threads, which follow each other, or, on
// every processor, by whoever has something at that address.
Result<std::vector<Fd>> run_watching(const Watch& watch, int program);

}  // namespace uscope::engine::kernel
