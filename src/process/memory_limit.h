// How much memory a process may have in all: the machine's, or what the control groups that it is in allow.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace uscope::process {

uint64_t memory_limit_of(pid_t pid);

// The least of the limits of a control group and those around it: of the second version's files below `root`,
// or of the first one's. UINT64_MAX: there is none. `cgroups`: as /proc/PID/cgroup tells it.
uint64_t group_memory_limit(const std::string& cgroups, const std::string& root);

}  // namespace uscope::process
