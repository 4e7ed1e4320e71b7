// What the kernel offers to the kernel engine: uprobes, BPF, tracefs, and the settings that lock them.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "session/doctor_checks.h"
#include "session/doctor_probe.h"

namespace uscope::session {
namespace {

std::string release() {
  utsname name{};
  ::uname(&name);
  return name.release;
}

// The kernel's build configuration as text, and where it was found; empty when it is nowhere.
struct Configuration {
  std::string text;
  std::string source;

  bool has(std::string_view option) const {
    for (const char* set : {"=y\n", "=m\n"})
      if (text.find(fmt::format("\nCONFIG_{}{}", option, set)) != std::string::npos) return true;
    return false;
  }
};

Configuration read_configuration() {
  constexpr size_t kLimit = 4 << 20;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> packed(::gzopen("/proc/config.gz", "rbe"), ::gzclose);
  if (packed) {
    std::string text = "\n";
    char chunk[16384];
    for (int got; text.size() < kLimit && (got = ::gzread(packed.get(), chunk, sizeof chunk)) > 0;)
      text.append(chunk, size_t(got));
    if (text.size() > 1) return {std::move(text), "/proc/config.gz"};
  }
  std::string path = "/boot/config-" + release();
  if (auto text = read_text_file(path, kLimit)) return {"\n" + *text, path};
  return {};
}

Finding version_finding() {
  Finding finding{"kernel", "Linux", Answer::Ok, release(), "", ""};
  if (!kernel_is_at_least(5, 8)) {
    finding.answer = Answer::No;
    finding.why = "the kernel engine is made for 5.8 and later";
  } else if (!kernel_is_at_least(6, 6)) {
    finding.why = "from 6.6 on, all probes attach in one step";
  }
  return finding;
}

Finding configuration_finding() {
  Configuration configuration = read_configuration();
  if (configuration.text.empty())
    return {"config", "configuration", Answer::Unknown, "not readable", "what follows was found by trying",
            ""};
  std::string missing;
  for (const char* option :
       {"UPROBES", "UPROBE_EVENTS", "PERF_EVENTS", "BPF_SYSCALL", "BPF_EVENTS", "BPF_JIT"})
    if (!configuration.has(option))
      missing += fmt::format("{}CONFIG_{}", missing.empty() ? "" : ", ", option);
  if (missing.empty())
    return {"config", "configuration", Answer::Ok, "complete", "from " + configuration.source, ""};
  return {"config", "configuration", Answer::No, "lacks " + missing, "from " + configuration.source, ""};
}

// Why the kernel said no to one of its tracing calls, and what would help.
void explain(Finding& finding, int error_number, const Rights& rights, bool bpf_rights_suffice = true) {
  finding.answer = Answer::No;
  finding.value = std::strerror(error_number);
  bool denied = error_number == EPERM || error_number == EACCES;
  if (denied && rights.has(CAP_SYS_ADMIN)) {
    std::string lockdown = one_line("/sys/kernel/security/lockdown");
    if (lockdown.find("[none]") == std::string::npos && !lockdown.empty()) {
      finding.why = "kernel lockdown forbids it";
    } else if (rights.under_seccomp) {
      finding.why = "the seccomp filter that uscope runs under forbids it";
      finding.remedy = "start the container with --security-opt seccomp=unconfined (or --privileged)";
    } else if (rights.in_user_namespace) {
      finding.why = "the rights of a user namespace are not enough";
      finding.remedy = "run uscope as root outside of the user namespace";
    } else {
      finding.why = "forbidden though the rights are there";
    }
  } else if (denied) {
    // Since Linux 5.8 two narrower capabilities do for BPF, but not for perf's uprobes.
    finding.why =
        bpf_rights_suffice ? "wants CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN" : "wants CAP_SYS_ADMIN";
    finding.remedy = how_to_get("SYS_ADMIN", rights);
  } else {
    finding.why = "this kernel does not know it";
  }
}

Finding load_finding(const Rights& rights) {
  Finding finding{"bpf_load", "BPF programs", Answer::Ok, "can be loaded", "", ""};
  Fd program;
  if (int error = try_bpf_load(false, program)) explain(finding, error, rights);
  return finding;
}

Finding maps_finding(const Rights& rights) {
  Finding finding{"bpf_maps", "BPF maps", Answer::Ok, "can be created", "", ""};
  if (int error = try_bpf_hash_map()) explain(finding, error, rights);
  return finding;
}

Finding ring_buffer_finding(const Rights& rights) {
  Finding finding{"bpf_ring_buffer", "BPF ring buffer", Answer::Ok, "can be created", "", ""};
  if (int error = try_bpf_ring_buffer()) explain(finding, error, rights);
  return finding;
}

Finding uprobe_multi_finding(const Rights& rights) {
  Finding finding{"uprobe_multi", "uprobe_multi links", Answer::Ok, "attached to uscope itself", "", ""};
  Fd program;
  int error = try_bpf_load(true, program);
  bool attached = false;
  if (error == 0) error = try_uprobe_multi(program, attached);
  if (error == 0 && !attached) finding.value = "known to the kernel";
  if (error == 0) return finding;
  explain(finding, error, rights);
  if (error == EINVAL) finding.why = "needs Linux 6.6; without it probes attach one by one";
  return finding;
}

Finding uprobe_perf_finding(const Rights& rights) {
  Finding finding{"uprobe_perf", "uprobes (perf)", Answer::Ok, "fired in uscope itself", "", ""};
  std::string type = one_line("/sys/bus/event_source/devices/uprobe/type");
  if (type.empty()) {
    bool has_sys = ::access("/sys/bus/event_source", F_OK) == 0;
    finding.answer = has_sys ? Answer::No : Answer::Unknown;
    finding.value = has_sys ? "no uprobe event source" : "not known";
    finding.why = has_sys ? "the kernel has no uprobes (CONFIG_UPROBES, CONFIG_UPROBE_EVENTS)"
                          : "there is no /sys here";
    finding.remedy = has_sys ? "" : "run: mount -t sysfs sysfs /sys";
    return finding;
  }
  PerfUprobe probe = try_perf_uprobe(std::atoi(type.c_str()));
  if (probe.error != 0) {
    explain(finding, probe.error, rights, false);
  } else if (!probe.fired) {
    finding.value = "can be attached";
  }
  return finding;
}

bool is_tracefs(const char* path) {
  struct statfs fs {};
  return ::statfs(path, &fs) == 0 && uint64_t(fs.f_type) == TRACEFS_MAGIC;
}

Finding tracefs_finding(const Rights& rights) {
  Finding finding{"tracefs", "tracefs", Answer::No, "not mounted", "", ""};
  for (const char* path : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    if (!is_tracefs(path)) continue;
    finding.value = path;
    // Opening to append adds and removes no probe.
    Fd events(::open(fmt::format("{}/uprobe_events", path).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (events.is_open()) {
      finding.answer = Answer::Ok;
    } else if (errno == ENOENT) {
      finding.why = "has no uprobe_events (CONFIG_UPROBE_EVENTS)";
    } else {
      finding.why = "not ours to write; `uscope probe -a` keeps its probes there, nothing else needs it";
      finding.remedy = how_to_get("SYS_ADMIN", rights);
    }
    return finding;
  }
  bool unreadable = ::access("/sys/kernel/tracing", X_OK) != 0 && errno == EACCES;
  if (unreadable) finding.value = "not ours to see";
  finding.why = "`uscope probe -a` keeps its probes there; nothing else needs it";
  const char* sudo = rights.is_root ? "" : "sudo ";
  finding.remedy = unreadable ? how_to_get("SYS_ADMIN", rights)
                              : fmt::format("run: {}mount -t tracefs nodev /sys/kernel/tracing", sudo);
  return finding;
}

Finding btf_finding() {
  bool there = ::access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  return {"btf",
          "kernel BTF",
          there ? Answer::Ok : Answer::No,
          there ? "/sys/kernel/btf/vmlinux" : "absent",
          there ? "" : "uscope does not need it",
          ""};
}

// Settings that matter to those without the capability only.
Finding setting_finding(const char* key, const char* path, const char* open_to_all, const Rights& rights) {
  std::string value = one_line(path);
  Finding finding{key, key, Answer::Ok, value, "", ""};
  if (value.empty()) {
    finding.answer = Answer::Unknown;
    finding.value = "not readable";
  } else if (value != open_to_all && !rights.has(CAP_SYS_ADMIN)) {
    finding.answer = Answer::No;
    finding.why = "ordinary users are kept out";
  }
  return finding;
}

Finding lockdown_finding() {
  std::string modes = one_line("/sys/kernel/security/lockdown");
  Finding finding{"lockdown", "lockdown", Answer::Ok, "none", "", ""};
  size_t open = modes.find('['), close = modes.find(']');
  if (open == modes.npos || close == modes.npos || close < open) {
    if (::access("/sys/kernel/security/lockdown", F_OK) == 0) finding.answer = Answer::Unknown;
    if (finding.answer == Answer::Unknown) finding.value = "not readable";
    return finding;
  }
  finding.value = modes.substr(open + 1, close - open - 1);
  if (finding.value == "confidentiality") {
    finding.answer = Answer::No;
    finding.why = "BPF programs may not read memory; the in-process engine is not affected";
  }
  return finding;
}

}  // namespace

Section check_kernel(const Rights& rights) {
  return {"kernel",
          {version_finding(), configuration_finding(), load_finding(rights), maps_finding(rights),
           ring_buffer_finding(rights), uprobe_multi_finding(rights), uprobe_perf_finding(rights),
           tracefs_finding(rights), btf_finding(),
           setting_finding("perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", "-1", rights),
           setting_finding("unprivileged_bpf_disabled", "/proc/sys/kernel/unprivileged_bpf_disabled", "0",
                           rights),
           lockdown_finding()}};
}

}  // namespace uscope::session
