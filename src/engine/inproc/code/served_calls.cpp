#include "engine/inproc/code/served_calls.h"

#include <cpuid.h>
#include <linux/bpf.h>

#include <cstdlib>

#include "codegen/program.h"
#include "engine/inproc/runtime/layout.h"
#include "runtime_blob.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint32_t word(size_t offset) { return uint32_t(1) << (offset / 8); }

constexpr uint32_t kAllRegisters = ((uint32_t(1) << (sizeof(Registers) / 8)) - 1) &
                                   ~(word(offsetof(Registers, flags)) | word(offsetof(Registers, cs)) |
                                     word(offsetof(Registers, ss)) | word(offsetof(Registers, orig_ax)));

// Some virtual processors have none.
bool has_rdtscp() {
  constexpr unsigned kExtendedFeatures = 0x80000001, kRdtscp = 1u << 27;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kExtendedFeatures, &a, &b, &c, &d) != 0 && (d & kRdtscp) != 0;
}

}  // namespace

std::optional<ServedCall> served_call(int32_t helper) {
  switch (helper) {
    case BPF_FUNC_map_lookup_elem:
      return ServedCall{"uscope_map_lookup"};
    case BPF_FUNC_map_update_elem:
      return ServedCall{"uscope_map_update"};
    case BPF_FUNC_map_delete_elem:
      return ServedCall{"uscope_map_delete"};
    case BPF_FUNC_map_lookup_percpu_elem:
      return ServedCall{"uscope_map_lookup_thread"};
    case BPF_FUNC_for_each_map_elem:
      return ServedCall{"uscope_map_for_each"};
    case BPF_FUNC_loop:
      return ServedCall{"uscope_loop"};
    case BPF_FUNC_probe_read:
    case BPF_FUNC_probe_read_user:
      return ServedCall{"uscope_read", 0, false, true};
    case BPF_FUNC_probe_read_str:
    case BPF_FUNC_probe_read_user_str:
      return ServedCall{"uscope_read_text", 0, false, true};
    case BPF_FUNC_probe_read_kernel:
      return ServedCall{"uscope_copy"};
    case BPF_FUNC_probe_read_kernel_str:
      return ServedCall{"uscope_copy_text"};
    case BPF_FUNC_strncmp:
      return ServedCall{"uscope_compare_text"};
    case BPF_FUNC_ringbuf_output:
      return ServedCall{"uscope_ring_output"};
    case BPF_FUNC_ktime_get_ns:
      return ServedCall{"uscope_monotonic"};
    case BPF_FUNC_ktime_get_boot_ns:
      return ServedCall{"uscope_boottime"};
    case BPF_FUNC_ktime_get_tai_ns:
      return ServedCall{"uscope_tai"};
    case BPF_FUNC_get_current_pid_tgid:
      return ServedCall{"uscope_pid_tgid"};
    case BPF_FUNC_get_ns_current_pid_tgid:
      return ServedCall{"uscope_ns_pid_tgid"};
    case BPF_FUNC_get_current_uid_gid:
      return ServedCall{"uscope_uid_gid"};
    case BPF_FUNC_get_current_comm:
      return ServedCall{"uscope_comm"};
    case BPF_FUNC_get_smp_processor_id:
      return has_rdtscp() ? std::optional(ServedCall{"uscope_cpu"}) : std::nullopt;
    case BPF_FUNC_get_numa_node_id:
      return has_rdtscp() ? std::optional(ServedCall{"uscope_numa_node"}) : std::nullopt;
    case BPF_FUNC_get_prandom_u32:
      return ServedCall{"uscope_random"};
    case BPF_FUNC_get_current_cgroup_id:
      return ServedCall{"uscope_cgroup"};
    case BPF_FUNC_get_attach_cookie:
      return ServedCall{"uscope_cookie", 0, true};
    case BPF_FUNC_send_signal:
      return ServedCall{"uscope_signal"};
    case BPF_FUNC_send_signal_thread:
      return ServedCall{"uscope_signal_thread"};
    case codegen::kParentProcess:
      return ServedCall{"uscope_parent"};
    case codegen::kUnwindStack:
      return ServedCall{"uscope_unwind", kAllRegisters, true, true};
    case codegen::kEnterFunction:
      return ServedCall{"uscope_enter", 0, true};
    case codegen::kLeaveFunction:
      return ServedCall{"uscope_leave", 0, true};
    case kNotice:
      return ServedCall{"uscope_notice"};
    default:
      return std::nullopt;
  }
}

uint32_t blob_offset(std::string_view symbol) {
  for (const auto& [name, offset] : kBlobSymbols)
    if (name == symbol) return offset;
  std::abort();  // the table above names what the runtime does not have: caught by its test
}

}  // namespace uscope::engine::inproc
