#include "session/cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/fd.h"
#include "base/glob.h"

namespace uscope::session {
namespace {

// A machine has some thousand cgroups; a search ends here.
constexpr size_t kMaxDirectories = 100'000;

struct Hierarchy {
  std::string name, mount;
  bool is_unified = false;
};

// "36 35 98:0 / /mount/point rw,noatime master:1 - cgroup2 cgroup rw,cpu"
std::vector<Hierarchy> hierarchies() {
  std::vector<Hierarchy> out;
  auto text = read_text_file("/proc/self/mountinfo");
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip, mount, word, kind;
    words >> skip >> skip >> skip >> skip >> mount;
    while (words >> word && word != "-") {
    }
    words >> kind;
    if (kind == "cgroup2")
      out.push_back({"unified", mount, true});
    else if (kind == "cgroup")
      out.push_back({std::filesystem::path(mount).filename().string(), mount, false});
  }
  // The unified one first, then by name.
  std::ranges::sort(out, [](const Hierarchy& a, const Hierarchy& b) {
    return a.is_unified != b.is_unified ? a.is_unified : a.name < b.name;
  });
  return out;
}

std::optional<std::string> find_in(const std::string& mount, uint64_t id) {
  struct stat info {};
  if (::stat(mount.c_str(), &info) == 0 && info.st_ino == id) return "/";
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(
      mount, std::filesystem::directory_options::skip_permission_denied, error);
  for (size_t seen = 0; !error && at != std::filesystem::recursive_directory_iterator();
       at.increment(error)) {
    if (!at->is_directory(error)) continue;
    if (++seen > kMaxDirectories) return std::nullopt;
    if (::stat(at->path().c_str(), &info) == 0 && info.st_ino == id)
      return at->path().string().substr(mount.size());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> cgroup_path(uint64_t id, const std::string& pattern) {
  std::string out;
  for (const Hierarchy& one : hierarchies()) {
    if (!pattern.empty() && !glob_match(pattern, one.name)) continue;
    auto path = find_in(one.mount, id);
    if (!path) continue;
    if (!out.empty()) out += ',';
    out += one.name + ":" + *path;
  }
  if (out.empty()) return std::nullopt;
  return out;
}

Result<uint64_t> cgroup_id(const std::string& directory) {
  struct {
    file_handle head;
    uint64_t id;
  } handle{};
  handle.head.handle_bytes = sizeof handle.id;
  int mount = 0;
  if (::name_to_handle_at(AT_FDCWD, directory.c_str(), &handle.head, &mount, 0) != 0)
    return fail(Error::from_errno("asking for the cgroup of " + directory, errno));
  return handle.id;
}

}  // namespace uscope::session
