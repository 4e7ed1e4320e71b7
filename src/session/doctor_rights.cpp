// Who we are: capabilities, namespaces, container, and the settings that take rights away.
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "session/doctor_checks.h"

namespace uscope::session {
namespace {

// Newer than some kernel headers.
constexpr unsigned kCapPerfmon = 38, kCapBpf = 39, kCapCheckpointRestore = 40;

// The inode numbers that the first namespaces have on every kernel since 3.8.
constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";
constexpr std::string_view kFirstUserNamespace = "user:[4026531837]";

std::string link_text(const char* path) {
  std::array<char, 256> text;
  ssize_t length = ::readlink(path, text.data(), text.size());
  return length < 0 ? "" : std::string(text.data(), size_t(length));
}

uint64_t effective_capabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return 0;
  return data[0].effective | uint64_t(data[1].effective) << 32;
}

// What kind of container this is; nothing when none can be seen.
std::optional<std::string> container_kind() {
  if (std::getenv("KUBERNETES_SERVICE_HOST")) return "Kubernetes";
  if (::access("/.dockerenv", F_OK) == 0) return "Docker";
  if (::access("/run/.containerenv", F_OK) == 0) return "Podman";
  if (const char* kind = std::getenv("container")) return kind;  // systemd-nspawn, lxc, podman
  std::string cgroups = read_text_file("/proc/self/cgroup").value_or("");
  for (const char* name : {"kubepods", "docker", "containerd", "libpod", "lxc"})
    if (cgroups.find(name) != std::string::npos) return name;
  std::string pid_namespace = link_text("/proc/self/ns/pid");
  if (!pid_namespace.empty() && pid_namespace != kFirstPidNamespace) return "a pid namespace of its own";
  return std::nullopt;
}

Finding user_finding(const Rights& rights) {
  Finding finding{"user", "user", Answer::Ok, process::user_name(::geteuid()), "", ""};
  if (rights.in_user_namespace) {
    finding.answer = Answer::Unknown;
    finding.why = "in a user namespace, whose rights do not reach outside it";
  }
  return finding;
}

Finding capability_finding(const Rights& rights) {
  struct Named {
    unsigned bit;
    const char* name;
  };
  constexpr Named kRelevant[] = {
      {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {kCapBpf, "CAP_BPF"},
      {kCapPerfmon, "CAP_PERFMON"},     {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
      {CAP_IPC_LOCK, "CAP_IPC_LOCK"},   {kCapCheckpointRestore, "CAP_CHECKPOINT_RESTORE"}};
  std::string held;
  for (auto [bit, name] : kRelevant)
    if (rights.has(bit)) held += (held.empty() ? "" : " ") + std::string(name);
  Finding finding{
      "capabilities", "capabilities", Answer::Ok, held.empty() ? "none that matter here" : held, "", ""};
  if (!rights.has(CAP_SYS_ADMIN) && !(rights.has(kCapBpf) && rights.has(kCapPerfmon))) {
    finding.answer = Answer::No;
    finding.why = "the kernel engine wants CAP_SYS_ADMIN; the in-process engine none, for your own programs";
    finding.remedy = how_to_get("SYS_ADMIN", rights);
  }
  return finding;
}

Finding container_finding() {
  auto kind = container_kind();
  if (!kind) return {"container", "container", Answer::Ok, "none seen", "", ""};
  bool sees_all = link_text("/proc/self/ns/pid") == kFirstPidNamespace;
  return {
      "container",
      "container",
      Answer::Ok,
      *kind,
      sees_all ? "it sees all processes of the machine" : "only processes inside of it can be traced by pid",
      ""};
}

Finding seccomp_finding(const Rights& rights) {
  if (!rights.has_proc) return {"seccomp", "seccomp of uscope", Answer::Unknown, "", "needs /proc", ""};
  if (!rights.under_seccomp) return {"seccomp", "seccomp of uscope", Answer::Ok, "off", "", ""};
  return {"seccomp",
          "seccomp of uscope",
          Answer::Unknown,
          "filtered",
          "a filter of the container or the service manager may deny bpf, perf_event_open or ptrace",
          ""};
}

Finding memlock_finding(const Rights& rights) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  std::string value = unlimited ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur >> 10);
  // Linux 5.11 and later count BPF's memory by cgroup and not by this limit; uscope raises it itself where it
  // may.
  bool enough =
      unlimited || limit.rlim_cur >= (64u << 20) || rights.has(CAP_SYS_RESOURCE) || rights.has(CAP_IPC_LOCK);
  if (enough) return {"memlock", "locked memory", Answer::Ok, value, "", ""};
  return {"memlock",
          "locked memory",
          Answer::Unknown,
          value,
          "matters to BPF before Linux 5.11",
          "run: ulimit -l unlimited"};
}

}  // namespace

Rights read_rights() {
  Rights rights;
  rights.capabilities = effective_capabilities();
  rights.is_root = ::geteuid() == 0;
  std::string user_namespace = link_text("/proc/self/ns/user");
  rights.in_user_namespace = !user_namespace.empty() && user_namespace != kFirstUserNamespace;
  rights.in_container = container_kind().has_value();
  auto status = read_text_file("/proc/self/status");
  rights.has_proc = status.has_value();
  if (status) {
    auto parsed = process::parse_status(*status);
    rights.under_seccomp = parsed && parsed->seccomp != process::Seccomp::Off;
  }
  return rights;
}

Section check_rights(const Rights& rights) {
  return {"rights",
          {user_finding(rights), capability_finding(rights), container_finding(), seccomp_finding(rights),
           memlock_finding(rights)}};
}

std::string how_to_get(std::string_view capabilities, const Rights& rights) {
  if (!rights.is_root) return "run: sudo uscope ...";
  if (rights.in_container)
    return fmt::format("start the container with --cap-add {} (or --privileged)", capabilities);
  return "run uscope as root with all capabilities";
}

bool kernel_is_at_least(unsigned major, unsigned minor) {
  utsname name{};
  ::uname(&name);
  unsigned running_major = 0, running_minor = 0;
  std::sscanf(name.release, "%u.%u", &running_major, &running_minor);
  return std::pair(running_major, running_minor) >= std::pair(major, minor);
}

std::string one_line(const std::string& path) {
  std::string text = read_text_file(path).value_or("");
  return text.substr(0, text.find('\n'));
}

}  // namespace uscope::session
