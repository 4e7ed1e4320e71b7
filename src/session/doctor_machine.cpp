// The processor, and whether a process can be stopped and made to run system calls: a child of ours is.
#include <cpuid.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "process/remote_call.h"
#include "session/doctor_checks.h"

namespace uscope::session {
namespace {

constexpr unsigned long kHwcap2Fsgsbase = 1 << 1;

Finding architecture_finding() {
  utsname name{};
  ::uname(&name);
  bool right = std::string_view(name.machine) == "x86_64";
  return {"architecture",
          "processor",
          right ? Answer::Ok : Answer::No,
          name.machine,
          right ? "" : "uscope traces x86-64 programs only",
          ""};
}

Finding fsgsbase_finding() {
  bool usable = ::getauxval(AT_HWCAP2) & kHwcap2Fsgsbase;
  return {"fsgsbase",
          "rdfsbase",
          usable ? Answer::Ok : Answer::No,
          usable ? "usable" : "not usable",
          usable
              ? ""
              : "probes find their thread's data a slower way (Linux 5.9 and a processor since 2012 have it)",
          ""};
}

Finding tsc_finding() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1 << 8);
  std::string clock = one_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  bool good = invariant && (clock.empty() || clock == "tsc");
  std::string value = invariant ? "invariant" : "not invariant";
  if (!clock.empty()) value += ", clock source " + clock;
  return {"tsc",
          "time stamp counter",
          good ? Answer::Ok : Answer::No,
          value,
          good ? "" : "times are taken with a system call, which costs more",
          ""};
}

// Ends and reaps the child whatever happens.
class PausedChild {
 public:
  PausedChild() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  PausedChild(const PausedChild&) = delete;
  PausedChild& operator=(const PausedChild&) = delete;
  ~PausedChild() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

Status stop_and_call(pid_t pid) {
  return process::with_seized(pid, {}, [](process::SeizedProcess& seized) -> Status {
    TRY(process::RemoteCaller caller, process::RemoteCaller::begin(seized));
    TRY(ProcessAddr area,
        caller.mmap({0}, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, {0}));
    TRY_STATUS(caller.munmap(area, 4096));
    return caller.finish();
  });
}

Finding remote_call_finding(const Rights& rights) {
  Finding finding{"remote_calls", "stop and call", Answer::Ok, "done with a child process", "", ""};
  PausedChild child;
  Status done =
      child.pid() > 0 ? stop_and_call(child.pid()) : Status(fail("no child process could be started"));
  if (done) return finding;
  finding.answer = Answer::No;
  finding.value = "failed";
  finding.why = done.error().what();
  finding.remedy = done.error().hint();
  if (rights.in_container && finding.remedy.empty())
    finding.remedy = "start the container with --cap-add SYS_PTRACE (kubectl debug --profile=general)";
  return finding;
}

Finding ptrace_scope_finding(const Rights& rights) {
  Finding finding{"ptrace_scope", "ptrace scope", Answer::Ok, "", "", ""};
  std::string scope = one_line("/proc/sys/kernel/yama/ptrace_scope");
  finding.value = scope.empty() ? "not restricted (no Yama)" : "kernel.yama.ptrace_scope=" + scope;
  bool privileged = rights.has(CAP_SYS_PTRACE);
  if (scope.empty() || scope == "0") {
    finding.why = privileged ? "" : "your own processes can be traced";
  } else if (scope == "3") {
    finding.answer = Answer::No;
    finding.why = "no process can be traced until the next boot";
  } else if (!privileged) {
    finding.answer = Answer::No;
    finding.why = scope == "1"
                      ? "only programs that uscope starts itself (-c) can be traced, not running ones (-p)"
                      : "tracing wants CAP_SYS_PTRACE";
    finding.remedy = "run: sudo sysctl kernel.yama.ptrace_scope=0 (or uscope with sudo)";
  }
  if (!rights.has_proc) finding = {"ptrace_scope", "ptrace scope", Answer::Unknown, "", "needs /proc", ""};
  return finding;
}

Finding suspend_seccomp_finding(const Rights& rights) {
  bool may = rights.has(CAP_SYS_ADMIN) && !rights.under_seccomp;
  return {"suspend_seccomp",
          "targets with seccomp",
          may ? Answer::Ok : Answer::No,
          may ? "if their filters allow it" : "not all",
          may ? "" : "to look at a program's own filters takes CAP_SYS_ADMIN; without, it is refused",
          may ? "" : how_to_get("SYS_ADMIN", rights)};
}

}  // namespace

Section check_machine() { return {"processor", {architecture_finding(), fsgsbase_finding(), tsc_finding()}}; }

Section check_inproc(const Rights& rights) {
  Finding proc{"proc", "/proc", Answer::Ok, "mounted", "", ""};
  if (!rights.has_proc)
    proc = {"proc",
            "/proc",
            Answer::No,
            "not mounted",
            "there is no /proc here",
            "run: mount -t proc proc /proc"};
  return {"processes",
          {proc, remote_call_finding(rights), ptrace_scope_finding(rights), suspend_seccomp_finding(rights)}};
}

}  // namespace uscope::session
