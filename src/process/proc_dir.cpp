#include "process/proc_dir.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/fd.h"

namespace uscope::process {

std::vector<pid_t> thread_ids(pid_t pid) {
  std::vector<pid_t> tids;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(fmt::format("/proc/{}/task", pid).c_str()), ::closedir);
  if (!dir) return tids;
  while (dirent* entry = ::readdir(dir.get())) {
    pid_t tid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    auto [stopped, error] = std::from_chars(entry->d_name, end, tid);
    if (error == std::errc() && stopped == end && tid > 0) tids.push_back(tid);
  }
  std::ranges::sort(tids);
  return tids;
}

bool is_dead_thread(pid_t pid, pid_t tid) {
  auto stat = read_text_file(fmt::format("/proc/{}/task/{}/stat", pid, tid));
  if (!stat) return true;
  // The name, in parentheses, may hold anything: the state is what follows the last one.
  size_t close = stat->rfind(')');
  if (close == std::string::npos || close + 2 >= stat->size()) return true;
  char state = (*stat)[close + 2];
  return state == 'Z' || state == 'X' || state == 'x';
}

pid_t living_thread(pid_t pid) {
  // A thread that has exited has no program any more; to ask for that is ten times as fast as reading its
  // state.
  char path[1];
  if (::readlink(fmt::format("/proc/{}/exe", pid).c_str(), path, sizeof path) >= 0) return pid;
  if (!is_dead_thread(pid, pid)) return pid;
  for (pid_t tid : thread_ids(pid))
    if (!is_dead_thread(pid, tid)) return tid;
  return pid;
}

std::string living_proc_dir(pid_t pid) { return proc_dir_of(pid, living_thread(pid)); }

std::string proc_dir_of(pid_t pid, pid_t living_tid) {
  return living_tid == pid ? fmt::format("/proc/{}", pid) : fmt::format("/proc/{}/task/{}", pid, living_tid);
}

}  // namespace uscope::process
