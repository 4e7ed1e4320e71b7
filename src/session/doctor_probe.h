// Trying the kernel's tracing calls once, harmlessly. Each function gives 0, or the errno of the step that
// failed. Raw system calls, because a library would retry, log and guess where we want to know exactly.
#pragma once

#include <string>

#include "base/fd.h"

namespace uscope::session {

// Loads "return 0" as a program for uprobes; meant for uprobe_multi links if `multi`.
int try_bpf_load(bool multi, Fd& program);
int try_bpf_hash_map();
int try_bpf_ring_buffer();

// Attaches the program to a function of uscope itself, in this process only, through one uprobe_multi link.
// Without /proc that place is not known: then only whether the kernel has such links is found out, and
// `attached` is false.
int try_uprobe_multi(const Fd& program, bool& attached);

struct PerfUprobe {
  int error = 0;
  bool fired = false;  // the function was called once, and counted once
};
// Puts a counting uprobe on a function of uscope itself through perf's uprobe PMU, and calls it.
PerfUprobe try_perf_uprobe(int pmu_type);

}  // namespace uscope::session
