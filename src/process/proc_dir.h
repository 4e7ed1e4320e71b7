// Where /proc keeps a process. When the first thread of a process has exited and others live on, /proc/PID
// itself has no maps, memory or exe any more; a living thread's own directory still has.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace uscope::process {

// The thread ids of a process, lowest first; empty when there is no such process (or /proc hides it).
std::vector<pid_t> thread_ids(pid_t pid);
// Whether a thread has exited but is still listed.
bool is_dead_thread(pid_t pid, pid_t tid);
// A thread that has not exited: pid itself as a rule.
pid_t living_thread(pid_t pid);
// "/proc/PID", or "/proc/PID/task/TID" where the first thread is gone.
std::string living_proc_dir(pid_t pid);
// The same, where a living thread is known.
std::string proc_dir_of(pid_t pid, pid_t living_tid);

}  // namespace uscope::process
