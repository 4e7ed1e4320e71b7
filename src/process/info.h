// What a process is: its names, owner, threads, namespaces and the state that decides whether it can be
// traced. ProcessInfo is plain data, read from /proc at one moment; start_time tells whether a pid has been
// reused since. Nothing here touches the process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace uscope::process {

enum class Seccomp { Off, Strict, Filter };

// What the text of /proc/PID/status holds. Fields that an old kernel lacks keep their default.
struct StatusFile {
  std::string name;
  char state = '?';
  pid_t tgid = 0;
  pid_t tracer = 0;
  uid_t real_uid = 0, effective_uid = 0, saved_uid = 0;
  gid_t real_gid = 0, effective_gid = 0, saved_gid = 0;
  unsigned threads = 0;
  uint64_t library_kb = 0;     // of mapped code that is not the program's
  uint64_t locked_kb = 0;      // of its memory, kept from being swapped out (mlockall)
  std::vector<pid_t> ns_pids;  // the pid in each pid namespace, from the one /proc belongs to inwards
  Seccomp seccomp = Seccomp::Off;
  std::optional<unsigned> seccomp_filters;  // Linux 5.9+
  uint64_t effective_capabilities = 0;
  uint64_t pending_signals = 0;  // of the thread and of the process together
  uint64_t blocked_signals = 0;
};
Result<StatusFile> parse_status(std::string_view text);

// What uscope takes from /proc/PID/stat.
struct StatFile {
  std::string comm;  // cut to 15 bytes by the kernel; may hold any byte
  char state = '?';
  uint64_t flags = 0;
  uint64_t start_time = 0;  // in clock ticks since boot
  bool is_kernel_thread() const { return flags & 0x00200000; }
};
Result<StatFile> parse_stat(std::string_view text);

struct ProcessInfo {
  pid_t pid = 0;
  StatusFile status;
  std::string comm;
  uint64_t start_time = 0;
  bool is_kernel_thread = false;
  bool is_zombie = false;       // every thread has exited
  bool leader_is_dead = false;  // the first thread has exited, others live on
  std::optional<std::string>
      exe;  // as the target's mount namespace names it; nothing when we may not read it
  bool exe_deleted = false;
  std::vector<std::string> cmdline;
  std::vector<pid_t> tids;
  std::vector<std::string>
      foreign_namespaces;  // of "pid", "mnt", "user", those that differ from ours and we may see

  // The pid that the process itself sees.
  pid_t own_pid() const { return status.ns_pids.empty() ? pid : status.ns_pids.back(); }
};

// Reads all of it. The Error is one of the sentences that read_pid_argument lists.
Result<ProcessInfo> read_process(pid_t pid);
// Only that, of everything.
Result<uint64_t> start_time_of(pid_t pid);

// Whether it is a process that runs. Errors: "1234 is a thread of process 1200; try 1200", "1234 is a
// zombie".
Status check_is_process(const ProcessInfo& info);
Status check_is_no_kernel_thread(const ProcessInfo& info);  // "1234 is a kernel thread"

// A process as a user names it: "1234". Errors: "no process 1234", "'x' is not a process id", and those of
// the checks.
Result<ProcessInfo> read_pid_argument(std::string_view argument);

// Whether we may attach to it (ptrace, reading its memory), without touching it. The Error says why not and
// what would help: its owner, ptrace_scope, another tracer.
Status check_may_attach(const ProcessInfo& info);

// Whether the pid still means the process that `info` was read from.
bool is_same_process(const ProcessInfo& info);

// "www-data", from /etc/passwd, or the number. (getpwuid does not work in a static executable.)
std::string user_name(uid_t uid);

}  // namespace uscope::process
