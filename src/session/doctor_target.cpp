// What concerns one process: may we attach, is it of a kind we can trace, what surrounds it.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>
#include <unistd.h>

#include <array>

#include "base/fd.h"
#include "session/doctor_checks.h"

namespace uscope::session {
namespace {

using process::ProcessInfo;

Finding program_finding(const ProcessInfo& target) {
  Finding finding{"target_program", "program", Answer::Ok, target.exe.value_or(target.comm), "", ""};
  size_t threads = target.tids.size();
  finding.value += fmt::format(", user {}, {} thread{}", process::user_name(target.status.real_uid), threads,
                               threads == 1 ? "" : "s");
  if (target.exe_deleted)
    finding.why = "the file has been deleted or replaced since it started; what runs is the old one";
  if (!target.exe) finding.answer = Answer::Unknown;
  if (!target.exe) finding.why = "which file it runs is not ours to see";
  return finding;
}

Finding attach_finding(const ProcessInfo& target) {
  auto may = process::check_may_attach(target);
  if (may) return {"target_attach", "attaching", Answer::Ok, "allowed", "", ""};
  return {"target_attach", "attaching", Answer::No, "refused", may.error().what(), may.error().hint()};
}

Finding bits_finding(const ProcessInfo& target) {
  // The fifth byte of an ELF file: 1 for 32 bits, 2 for 64.
  std::array<char, 5> head{};
  Fd exe(::open(fmt::format("/proc/{}/exe", target.pid).c_str(), O_RDONLY | O_CLOEXEC));
  bool read = exe.is_open() && ::read(exe.get(), head.data(), head.size()) == ssize_t(head.size());
  if (!read || head[0] != 0x7f)
    return {"target_64bit", "64-bit program", Answer::Unknown, "not readable", "", ""};
  if (head[4] == 2) return {"target_64bit", "64-bit program", Answer::Ok, "yes", "", ""};
  return {"target_64bit", "64-bit program", Answer::No, "32-bit", "uscope traces 64-bit programs only", ""};
}

Finding seccomp_finding(const ProcessInfo& target, const Rights& rights) {
  Finding finding{"target_seccomp", "seccomp of it", Answer::Ok, "off", "", ""};
  if (target.status.seccomp == process::Seccomp::Off) return finding;
  finding.value = target.status.seccomp == process::Seccomp::Strict ? "strict" : "filtered";
  if (target.status.seccomp_filters) finding.value += fmt::format(" ({})", *target.status.seccomp_filters);
  if (target.status.seccomp == process::Seccomp::Strict) {
    finding.answer = Answer::No;
    finding.why = "it would be killed for a system call of a probe inside it";
    finding.remedy = "use: --engine kernel";
  } else if (rights.has(CAP_SYS_ADMIN) && !rights.under_seccomp) {
    finding.answer = Answer::Unknown;
    finding.why =
        "which calls its filters allow is looked at when a script is attached; one that could be its death "
        "is refused";
  } else if (rights.under_seccomp) {
    finding.answer = Answer::Unknown;
    finding.why = "can be traced if its filters are no more than uscope's own (the container's)";
  } else {
    finding.answer = Answer::No;
    finding.why = "its filter could kill it for a system call of a probe";
    finding.remedy = "run: sudo uscope ...";
  }
  return finding;
}

Finding namespace_finding(const ProcessInfo& target) {
  Finding finding{"target_namespaces", "namespaces", Answer::Ok, "", "", ""};
  if (target.foreign_namespaces.empty()) {
    finding.value = "same as ours";
  } else {
    finding.value = fmt::format("its own: {}", fmt::join(target.foreign_namespaces, ", "));
    finding.why = "its files are found under its own root";
  }
  if (target.own_pid() != target.pid)
    finding.value += fmt::format("; it is pid {} to itself", target.own_pid());
  return finding;
}

Finding state_finding(const ProcessInfo& target) {
  Finding finding{"target_state", "state", Answer::Ok, "running", "", ""};
  switch (target.status.state) {
    case 'T':
      finding.value = "stopped";
      finding.why = "nothing will be seen until it goes on";
      finding.remedy = fmt::format("run: kill -CONT {}", target.pid);
      break;
    case 'D':
      finding.answer = Answer::Unknown;
      finding.value = "in an uninterruptible wait";
      finding.why = "the in-process engine must wait for its end";
      break;
    case 'S':
      finding.value = "sleeping";
      break;
    default:
      break;
  }
  if (target.leader_is_dead) finding.value = "its first thread has exited, others run on";
  return finding;
}

}  // namespace

Section check_target(const ProcessInfo& target, const Rights& rights) {
  return {fmt::format("process {}", target.pid),
          {program_finding(target), attach_finding(target), bits_finding(target),
           seccomp_finding(target, rights), namespace_finding(target), state_finding(target)}};
}

}  // namespace uscope::session
