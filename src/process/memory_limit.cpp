#include "process/memory_limit.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/fd.h"
#include "process/proc_dir.h"

namespace uscope::process {
namespace {

uint64_t number_in(const std::string& path) {
  auto text = read_text_file(path);
  uint64_t value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc())
    return UINT64_MAX;  // "max", too
  return value;
}

uint64_t least_upwards(const std::string& root, std::string group, const std::string& file) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    least = std::min(least, number_in(root + group + "/" + file));
    const size_t up = group.rfind('/');
    if (group.empty() || up == std::string::npos) return least;
    group.resize(up);
  }
}

}  // namespace

uint64_t group_memory_limit(const std::string& cgroups, const std::string& root) {
  uint64_t least = UINT64_MAX;
  std::string_view rest = cgroups;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) least = std::min(least, least_upwards(root, group, "memory.max"));
    if (controllers == "memory")
      least = std::min(least, least_upwards(root + "/memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t memory_limit_of(pid_t pid) {
  struct sysinfo info {};
  uint64_t least = ::sysinfo(&info) == 0 ? uint64_t(info.totalram) * info.mem_unit : UINT64_MAX;
  if (auto cgroups = read_text_file(living_proc_dir(pid) + "/cgroup"))
    least = std::min(least, group_memory_limit(*cgroups, "/sys/fs/cgroup"));
  return least;
}

}  // namespace uscope::process
