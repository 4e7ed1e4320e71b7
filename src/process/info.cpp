#include "process/info.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/fd.h"
#include "process/proc_dir.h"

namespace uscope::process {
namespace {

std::optional<std::string> link_target(const std::string& path) {
  std::string target(4096, '\0');
  ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  target.resize(size_t(length));
  return target;
}

std::vector<std::string> split_at_nul(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find('\0'), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Why /proc has nothing about a pid.
Error why_absent(pid_t pid) {
  struct stat st;
  if (::stat("/proc/self/stat", &st) != 0)
    return Error("there is no /proc here").with_hint("run: mount -t proc proc /proc");
  // In this order: a process that ends between the two questions is not taken for a hidden one.
  bool listed = ::access(fmt::format("/proc/{}", pid).c_str(), F_OK) == 0;
  if (!listed && (::kill(pid, 0) == 0 || errno == EPERM))
    return Error(fmt::format("process {} exists, but /proc hides it (hidepid)", pid)).with_hint("try sudo");
  return Error(fmt::format("no process {}", pid));
}

void read_exe(ProcessInfo& info, const std::string& dir) {
  info.exe = link_target(dir + "/exe");
  constexpr std::string_view kDeleted = " (deleted)";
  if (!info.exe || !info.exe->ends_with(kDeleted)) return;
  // A program may really be called "x (deleted)": then that name leads to it.
  struct stat running, named;
  bool both = ::stat((dir + "/exe").c_str(), &running) == 0 &&
              ::stat((dir + "/root" + *info.exe).c_str(), &named) == 0;
  if (both && running.st_ino == named.st_ino && running.st_dev == named.st_dev) return;
  info.exe_deleted = true;
  info.exe->resize(info.exe->size() - kDeleted.size());
}

std::vector<std::string> foreign_namespaces_of(const std::string& dir) {
  std::vector<std::string> foreign;
  for (const char* name : {"pid", "mnt", "user"}) {
    auto theirs = link_target(fmt::format("{}/ns/{}", dir, name));
    auto ours = link_target(fmt::format("/proc/self/ns/{}", name));
    if (theirs && ours && *theirs != *ours) foreign.push_back(name);
  }
  return foreign;
}

bool every_thread_is_dead(const ProcessInfo& info) {
  return std::ranges::all_of(info.tids, [&](pid_t tid) { return is_dead_thread(info.pid, tid); });
}

std::string name_of(pid_t pid) {
  auto comm = read_text_file(fmt::format("/proc/{}/comm", pid));
  if (!comm) return fmt::format("process {}", pid);
  if (comm->ends_with('\n')) comm->pop_back();
  return fmt::format("{} (process {})", *comm, pid);
}

}  // namespace

Result<ProcessInfo> read_process(pid_t pid) {
  ProcessInfo info;
  info.pid = pid;
  const std::string base = fmt::format("/proc/{}", pid);
  auto stat_text = read_text_file(base + "/stat");
  auto status_text = read_text_file(base + "/status");
  if (!stat_text || !status_text) return fail(why_absent(pid));
  TRY(StatFile stat, parse_stat(*stat_text));
  TRY(info.status, parse_status(*status_text));
  info.comm = std::move(stat.comm);
  info.start_time = stat.start_time;
  info.is_kernel_thread = stat.is_kernel_thread();
  info.tids = thread_ids(pid);
  info.leader_is_dead = stat.state == 'Z' || stat.state == 'X';
  info.is_zombie = info.leader_is_dead && every_thread_is_dead(info);

  const std::string dir = living_proc_dir(pid);
  read_exe(info, dir);
  if (auto cmdline = read_text_file(dir + "/cmdline")) info.cmdline = split_at_nul(*cmdline);
  info.foreign_namespaces = foreign_namespaces_of(dir);
  return info;
}

Result<uint64_t> start_time_of(pid_t pid) {
  TRY(std::string text, read_text_file(fmt::format("/proc/{}/stat", pid)));
  TRY(StatFile stat, parse_stat(text));
  return stat.start_time;
}

Status check_is_process(const ProcessInfo& info) {
  if (info.status.tgid != 0 && info.status.tgid != info.pid) {
    return fail(Error(fmt::format("{} is a thread of process {}", info.pid, info.status.tgid))
                    .with_hint(fmt::format("try {}", info.status.tgid)));
  }
  if (info.is_zombie) return fail(fmt::format("{} is a zombie ({} has exited)", info.pid, info.comm));
  return {};
}

Status check_is_no_kernel_thread(const ProcessInfo& info) {
  if (info.is_kernel_thread) return fail(fmt::format("{} is a kernel thread ({})", info.pid, info.comm));
  return {};
}

Result<ProcessInfo> read_pid_argument(std::string_view argument) {
  pid_t pid = 0;
  auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), pid);
  if (error != std::errc() || end != argument.data() + argument.size() || pid <= 0)
    return fail(fmt::format("'{}' is not a process id", argument));
  TRY(ProcessInfo info, read_process(pid));
  TRY_STATUS(check_is_no_kernel_thread(info));
  TRY_STATUS(check_is_process(info));
  return info;
}

Status check_may_attach(const ProcessInfo& info) {
  if (info.status.tracer != 0)
    return fail(
        Error(fmt::format("process {} is already being traced by {}", info.pid, name_of(info.status.tracer)))
            .with_hint("end that one first"));
  // Opening this file asks the kernel the same question as PTRACE_ATTACH does, Yama included, and does
  // nothing else.
  Fd mem(::open((living_proc_dir(info.pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (mem.is_open()) return {};
  if (errno == ENOENT || errno == ESRCH) return fail(why_absent(info.pid));
  if (errno != EACCES && errno != EPERM)
    return fail(Error::from_errno(fmt::format("opening the memory of process {}", info.pid), errno));

  const std::string denied = "permission denied: ";
  if (info.status.real_uid != ::geteuid() || info.status.saved_uid != ::geteuid())
    return fail(
        Error(denied + "it belongs to user " + user_name(info.status.real_uid)).with_hint("try sudo"));
  auto scope = read_text_file("/proc/sys/kernel/yama/ptrace_scope");
  if (scope && scope->starts_with('1'))
    return fail(Error(denied + "kernel.yama.ptrace_scope is 1, only a program's own children can be traced")
                    .with_hint("try sudo, or run as root: sysctl kernel.yama.ptrace_scope=0"));
  if (scope && scope->starts_with('2'))
    return fail(
        Error(denied + "kernel.yama.ptrace_scope is 2, tracing wants CAP_SYS_PTRACE").with_hint("try sudo"));
  if (scope && scope->starts_with('3'))
    return fail(denied + "kernel.yama.ptrace_scope is 3, nothing can be traced until the next boot");
  return fail(
      Error(denied + "it has more rights than uscope, or has made itself untraceable (PR_SET_DUMPABLE)")
          .with_hint("try sudo"));
}

bool is_same_process(const ProcessInfo& info) {
  auto text = read_text_file(fmt::format("/proc/{}/stat", info.pid));
  if (!text) return false;
  auto stat = parse_stat(*text);
  return stat && stat->start_time == info.start_time;
}

std::string user_name(uid_t uid) {
  std::string number = std::to_string(uid);
  auto passwd = read_text_file("/etc/passwd");
  std::string_view rest = passwd ? std::string_view(*passwd) : std::string_view();
  while (!rest.empty()) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    size_t name_end = line.find(':');
    size_t uid_start = name_end == line.npos ? line.npos : line.find(':', name_end + 1);
    if (uid_start == line.npos) continue;
    std::string_view field = line.substr(uid_start + 1, line.find(':', uid_start + 1) - uid_start - 1);
    if (field == number) return std::string(line.substr(0, name_end));
  }
  return number;
}

}  // namespace uscope::process
