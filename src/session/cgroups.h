// Where cgroups lie: paths of a cgroup's number in every hierarchy that is mounted, and the number of a path.
// Reads /proc/self/mountinfo and the directories below; keeps nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace uscope::session {

// "unified:/a,cpu:/b"; only hierarchies whose names the pattern matches, if there is one. Nothing: no
// hierarchy has such a cgroup.
std::optional<std::string> cgroup_path(uint64_t id, const std::string& pattern);

// What the kernel calls the cgroup at this directory of the unified hierarchy.
Result<uint64_t> cgroup_id(const std::string& directory);

}  // namespace uscope::session
