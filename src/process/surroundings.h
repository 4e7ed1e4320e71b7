// What is around a process and may change while it runs: its parent and its cgroup, as /proc tells them now.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace uscope::process {

struct Surroundings {
  pid_t parent = 0;         // 0: of another pid namespace
  std::string parent_name;  // as comm has it; empty if it cannot be read
  // The number by which the kernel knows its cgroup of the unified hierarchy; nothing if that is not mounted
  // here.
  std::optional<uint64_t> cgroup;
};

// Nothing if the process is gone.
std::optional<Surroundings> surroundings_of(pid_t pid);

}  // namespace uscope::process
