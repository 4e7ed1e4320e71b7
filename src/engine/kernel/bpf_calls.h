// The bpf(2) and perf_event_open(2) system calls, one function a use, errors as errno values. What Debian
// 12's linux/bpf.h (6.1) does not know yet is defined here. Nothing here decides anything or keeps anything.
#pragma once

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace uscope::engine::kernel {

// A value, or the errno that the kernel answered with: callers choose a way by it.
template <typename T>
using OrErrno = std::expected<T, int>;

constexpr uint32_t kTraceUprobeMulti = 48;       // BPF_TRACE_UPROBE_MULTI, Linux 6.6
constexpr uint32_t kUprobeMultiReturn = 1 << 0;  // BPF_F_UPROBE_MULTI_RETURN

// bpf_attr's link_create as far as uprobe_multi reaches (Linux 6.6).
struct UprobeMultiLink {
  uint32_t program = 0;
  uint32_t target_fd = 0;
  uint32_t attach_type = kTraceUprobeMulti;
  uint32_t link_flags = 0;
  uint64_t path = 0;
  uint64_t offsets = 0;
  uint64_t ref_ctr_offsets = 0;
  uint64_t cookies = 0;
  uint32_t count = 0;
  uint32_t flags = 0;
  uint32_t pid = 0;
  uint32_t unused = 0;
};
static_assert(sizeof(UprobeMultiLink) == 64);

// The raw call: 0 or a new fd, or -1 and errno.
int bpf_call(bpf_cmd command, void* attributes, uint32_t size);

OrErrno<Fd> create_uprobe_multi_link(UprobeMultiLink& link);
// Attaches to a perf event, with a cookie (Linux 5.15); the link keeps the event alive.
OrErrno<Fd> create_perf_link(int program, int event, uint64_t cookie);
// A BTF object with the two functions that uscope's programs are made of, by type id.
constexpr uint32_t kMainFunctionType = 3, kCallbackType = 4;
OrErrno<Fd> load_function_types();
OrErrno<Fd> open_perf_event(const perf_event_attr& attributes, pid_t pid, int cpu);

// The first 15 characters of a name, with what the kernel does not take in it replaced by '_'.
std::string object_name(std::string_view name);

// Lifts RLIMIT_MEMLOCK: kernels before 5.11 count maps and programs against it.
void lift_memlock_limit();
// Makes room for `wanted` more open files, as far as this process may.
void make_room_for_fds(size_t wanted);

}  // namespace uscope::engine::kernel
