#include "session/target.h"

#include <sys/stat.h>

#include <algorithm>

#include "probe/image_files.h"
#include "process/info.h"

namespace uscope::session {
namespace {

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Files of another root name themselves: /proc/123/root/usr/bin/x, /proc/123/exe.
std::string root_of(const std::string& path) {
  constexpr std::string_view proc = "/proc/";
  if (!path.starts_with(proc)) return "";
  const size_t end = path.find('/', proc.size());
  if (end == std::string::npos || !is_pid(std::string_view(path).substr(proc.size(), end - proc.size())))
    return "";
  const std::string_view rest = std::string_view(path).substr(end);
  return rest.starts_with("/root/") || rest == "/exe" ? path.substr(0, end) + "/root" : "";
}

}  // namespace

bool is_pid(std::string_view argument) {
  return !argument.empty() && std::ranges::all_of(argument, [](char c) { return c >= '0' && c <= '9'; });
}

Result<Target> find_target(std::string_view argument) {
  Target target;
  if (is_pid(argument)) {
    TRY(const process::ProcessInfo info, process::read_pid_argument(argument));
    target.pid = info.pid;
    const std::string proc = "/proc/" + std::to_string(info.pid);
    target.root = is_same_file(proc + "/root/", "/") ? "" : proc + "/root";
    target.path = proc + "/exe";
    target.shown = info.exe.value_or(target.path);
    // By its own name where that still leads to it: debug files are looked for beside it.
    if (info.exe && is_same_file(target.root + *info.exe, target.path)) target.path = target.root + *info.exe;
    return target;
  }
  TRY(const auto files, probe::find_image_files(std::string(argument), std::nullopt));
  if (files.size() != 1) {
    return fail("`" + std::string(argument) + "` means " + (files.empty() ? "no file" : "several files") +
                "; name one");
  }
  target.path = files[0].opened;
  target.shown = files[0].shown;
  target.root = root_of(target.path);
  return target;
}

}  // namespace uscope::session
