#include "session/feature_text.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/kernel/features.h"

namespace uscope::session {
namespace {

const char* yes_no(bool is_there) { return is_there ? "yes" : "no"; }

}  // namespace

std::string feature_text(std::string_view version) {
  utsname system{};
  ::uname(&system);
  engine::kernel::Features kernel = engine::kernel::find_features();
  std::string text = fmt::format("System\n  OS: {} {} {}\n  Arch: {}\n\n", system.sysname, system.release,
                                 system.version, system.machine);
  text += fmt::format(
      "Build\n"
      "  version: v{} (uscope, as bpftrace v0.27.1)\n"
      "  libdw (DWARF support): yes\n"
      "  dwunwind (DWARF stack unwinding): yes\n\n",
      version);
  text += fmt::format(
      "Kernel helpers\n"
      "  dpath: {}\n  get_tai_ns: {}\n  get_func_ip: {}\n  lookup_percpu_elem: {}\n  loop: {}\n\n",
      yes_no(kernel.dpath), yes_no(kernel.get_tai_ns), yes_no(kernel.get_func_ip),
      yes_no(kernel.lookup_percpu_elem), yes_no(kernel.loop));
  bool has_btf = ::access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  text += fmt::format("Kernel features\n  Instruction limit: {}\n  btf: {}\n\n",
                      kernel.is_privileged ? 1000000 : 4096, yes_no(has_btf));
  // Probes inside the kernel are not uscope's business, whatever the kernel could do.
  text +=
      fmt::format("Probe types\n  kprobe_multi: no\n  uprobe_multi: {}\n  kprobe_session: no\n  iter: no\n",
                  yes_no(kernel.uprobe_multi));
  return text;
}

}  // namespace uscope::session
