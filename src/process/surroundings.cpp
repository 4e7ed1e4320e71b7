#include "process/surroundings.h"

#include <sys/stat.h>

#include <charconv>
#include <sstream>

#include "base/fd.h"

namespace uscope::process {
namespace {

// "36 35 98:0 / /mount/point rw,noatime - cgroup2 cgroup rw": the fourth word is the part that is mounted.
struct Mount {
  std::string root, at;
};
std::optional<Mount> unified_hierarchy() {
  auto text = read_text_file("/proc/self/mountinfo");
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip, kind;
    Mount mount;
    words >> skip >> skip >> skip >> mount.root >> mount.at;
    while (words >> skip && skip != "-") {
    }
    if (words >> kind && kind == "cgroup2") return mount;
  }
  return std::nullopt;
}

// The directory's number is the cgroup's, wherever both have 64 bits.
std::optional<uint64_t> cgroup_of(const std::string& proc) {
  auto text = read_text_file(proc + "/cgroup");
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("0::")) continue;
    std::string path = line.substr(3);
    const auto mount = unified_hierarchy();
    if (!mount) return std::nullopt;
    if (mount->root != "/") {
      if (!path.starts_with(mount->root)) return std::nullopt;
      path.erase(0, mount->root.size());
    }
    struct stat info {};
    if (::stat((mount->at + path).c_str(), &info) != 0) return std::nullopt;
    return info.st_ino;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Surroundings> surroundings_of(pid_t pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  auto status = read_text_file(proc + "/status");
  if (!status) return std::nullopt;
  Surroundings found;
  constexpr std::string_view kParent = "\nPPid:\t";
  if (size_t at = status->find(kParent); at != std::string::npos) {
    const char* digits = status->data() + at + kParent.size();
    std::from_chars(digits, status->data() + status->size(), found.parent);
  }
  if (found.parent != 0) {
    auto name = read_text_file("/proc/" + std::to_string(found.parent) + "/comm");
    if (name) found.parent_name = name->substr(0, name->find('\n'));
  }
  found.cgroup = cgroup_of(proc);
  return found;
}

}  // namespace uscope::process
