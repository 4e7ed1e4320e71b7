#include "session/machine_facts.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "image/btf/btf.h"
#include "session/cgroups.h"
#include "session/kernel_symbols.h"

namespace uscope::session {
namespace {

constexpr uint64_t kFirstPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO of the kernel

int64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// pid and tid are numbers of the namespace that uscope runs in, where its user sees them.
std::optional<codegen::PidNamespace> own_pid_namespace() {
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) != 0 || info.st_ino == kFirstPidNamespace) return std::nullopt;
  return codegen::PidNamespace{info.st_dev, info.st_ino};
}

std::optional<codegen::TaskLayout> task_layout() {
  auto types = image::Btf::of_running_kernel();
  if (!types) return std::nullopt;
  auto real_parent = types->offset_of("task_struct", "real_parent");
  auto tgid = types->offset_of("task_struct", "tgid"), comm = types->offset_of("task_struct", "comm");
  if (!real_parent || !tgid || !comm) return std::nullopt;
  return codegen::TaskLayout{*real_parent, *tgid, *comm};
}

}  // namespace

void add_machine_facts(codegen::Inputs& inputs) {
  inputs.possible_cpus = uint32_t(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)));
  inputs.pid_namespace = own_pid_namespace();
  inputs.boot_to_tai_ns = now_ns(CLOCK_TAI) - now_ns(CLOCK_BOOTTIME);
  inputs.task_layout = task_layout;
  inputs.kernel_address = [symbols = std::make_shared<KernelSymbols>()](const std::string& name) {
    return symbols->address_of(name);
  };
  inputs.cgroup_id = cgroup_id;
}

}  // namespace uscope::session
