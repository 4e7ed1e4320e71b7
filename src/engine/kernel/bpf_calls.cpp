#include "engine/kernel/bpf_calls.h"

#include <fcntl.h>
#include <linux/btf.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace uscope::engine::kernel {

namespace {

OrErrno<Fd> owned(int fd) {
  if (fd < 0) return std::unexpected(errno);
  return Fd(fd);
}

}  // namespace

int bpf_call(bpf_cmd command, void* attributes, uint32_t size) {
  return int(::syscall(SYS_bpf, command, attributes, size));
}

OrErrno<Fd> create_uprobe_multi_link(UprobeMultiLink& link) {
  return owned(bpf_call(BPF_LINK_CREATE, &link, sizeof link));
}

OrErrno<Fd> create_perf_link(int program, int event, uint64_t cookie) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.link_create.prog_fd = uint32_t(program);
  attributes.link_create.target_fd = uint32_t(event);
  attributes.link_create.attach_type = BPF_PERF_EVENT;
  attributes.link_create.perf_event.bpf_cookie = cookie;
  return owned(bpf_call(BPF_LINK_CREATE, &attributes, sizeof attributes.link_create));
}

OrErrno<Fd> load_function_types() {
  static constexpr char kNames[] = "\0int\0main\0callback";
  constexpr uint32_t kInt = 1, kMain = 5, kCallback = 10;  // offsets in kNames
  auto kind = [](uint32_t number) { return number << 24; };
  // int; int(); main, of the second and global; callback, of the second and static.
  const std::array<uint32_t, 13> types = {kInt,
                                          kind(BTF_KIND_INT),
                                          4,
                                          uint32_t(BTF_INT_SIGNED) << 24 | 32,
                                          0,
                                          kind(BTF_KIND_FUNC_PROTO),
                                          1,
                                          kMain,
                                          kind(BTF_KIND_FUNC) | BTF_FUNC_GLOBAL,
                                          2,
                                          kCallback,
                                          kind(BTF_KIND_FUNC) | BTF_FUNC_STATIC,
                                          2};
  btf_header header{};
  header.magic = BTF_MAGIC;
  header.version = BTF_VERSION;
  header.hdr_len = sizeof header;
  header.type_len = sizeof types;
  header.str_off = sizeof types;
  header.str_len = sizeof kNames;
  std::array<char, sizeof header + sizeof types + sizeof kNames> whole;
  std::memcpy(whole.data(), &header, sizeof header);
  std::memcpy(whole.data() + sizeof header, types.data(), sizeof types);
  std::memcpy(whole.data() + sizeof header + sizeof types, kNames, sizeof kNames);
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.btf = uint64_t(whole.data());
  attributes.btf_size = uint32_t(whole.size());
  return owned(bpf_call(BPF_BTF_LOAD, &attributes, sizeof attributes));
}

OrErrno<Fd> open_perf_event(const perf_event_attr& attributes, pid_t pid, int cpu) {
  return owned(int(::syscall(SYS_perf_event_open, &attributes, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
}

std::string object_name(std::string_view name) {
  std::string result(name.substr(0, BPF_OBJ_NAME_LEN - 1));
  for (char& c : result) {
    bool is_legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_legal) c = '_';
  }
  return result;
}

void lift_memlock_limit() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) == 0) return;
  // Without the right to raise the hard limit, all of it is still more than the default soft one.
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
}

void make_room_for_fds(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  Fd lowest_free(::open("/", O_PATH | O_CLOEXEC));
  rlim_t used = lowest_free.is_open() ? rlim_t(lowest_free.get()) : limit.rlim_cur;
  rlim_t needed = used + rlim_t(wanted) + 256;  // and what else uscope opens meanwhile
  if (limit.rlim_cur >= needed) return;
  rlimit raised{needed, std::max(needed, limit.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace uscope::engine::kernel
