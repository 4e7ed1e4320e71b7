#include "session/doctor_probe.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "process/maps.h"

namespace uscope::session {
namespace {

// Newer than Debian 12's kernel headers: Linux 6.6.
constexpr uint32_t kAttachUprobeMulti = 48;
struct UprobeMultiLink {
  uint32_t program;
  uint32_t target = 0;
  uint32_t attach_type = kAttachUprobeMulti;
  uint32_t flags = 0;
  uint64_t path;
  uint64_t offsets;
  uint64_t reference_counters = 0;
  uint64_t cookies = 0;
  uint32_t count = 1;
  uint32_t multi_flags = 0;
  uint32_t pid;
  uint32_t padding = 0;
};

uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// The function that is probed. Its first instruction is one that every kernel can probe.
[[gnu::noinline, gnu::used]] void probed_function() { asm volatile("nop"); }

struct ProbedPlace {
  std::string path = "/";  // a directory: the kernel refuses it, but only after having asked for our rights
  uint64_t offset = 0;
  bool real = false;
};
ProbedPlace probed_place() {
  ProbedPlace place;
  auto maps = process::Maps::of(::getpid());
  if (!maps) return place;
  const ProcessAddr function{address(reinterpret_cast<const void*>(&probed_function))};
  const process::Mapping* mapping = maps->find(function);
  if (!mapping || mapping->kind != process::MappingKind::File) return place;
  return {"/proc/self/exe", mapping->file_offset(function).value, true};
}

int create_map(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t entries) {
  bpf_attr attr{};
  attr.map_type = type;
  attr.key_size = key_size;
  attr.value_size = value_size;
  attr.max_entries = entries;
  Fd map(int(::syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr)));
  return map.is_open() ? 0 : errno;
}

}  // namespace

int try_bpf_load(bool multi, Fd& program) {
  const std::array<bpf_insn, 2> code = {
      {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0}, {.code = BPF_JMP | BPF_EXIT}}};
  bpf_attr attr{};
  attr.prog_type = BPF_PROG_TYPE_KPROBE;
  attr.insns = address(code.data());
  attr.insn_cnt = code.size();
  attr.license = address("GPL");
  if (multi) attr.expected_attach_type = bpf_attach_type(kAttachUprobeMulti);
  program = Fd(int(::syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr)));
  return program.is_open() ? 0 : errno;
}

int try_bpf_hash_map() { return create_map(BPF_MAP_TYPE_HASH, 8, 8, 16); }
int try_bpf_ring_buffer() { return create_map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096); }

int try_uprobe_multi(const Fd& program, bool& attached) {
  const ProbedPlace place = probed_place();
  UprobeMultiLink attr{.program = uint32_t(program.get()),
                       .path = address(place.path.c_str()),
                       .offsets = address(&place.offset),
                       .pid = uint32_t(::getpid())};
  Fd link(int(::syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof attr)));
  attached = link.is_open();
  if (attached) return 0;
  // A kernel that knows such links gets as far as looking at the directory.
  return !place.real && errno == EBADF ? 0 : errno;
}

PerfUprobe try_perf_uprobe(int pmu_type) {
  const ProbedPlace place = probed_place();
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = uint32_t(pmu_type);
  attr.config1 = address(place.path.c_str());
  attr.config2 = place.offset;
  Fd event(int(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!event.is_open()) return {!place.real && errno == EINVAL ? 0 : errno, false};
  probed_function();
  uint64_t count = 0;
  bool read = ::read(event.get(), &count, sizeof count) == sizeof count;
  return {0, read && count == 1};
}

}  // namespace uscope::session
