// Who runs: threads, their ids, the process, and where they are.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

// Where the C library or the runtime keeps a thread's id, counted from the thread pointer: glibc's and musl's
// struct pthread; Go's m, whose tls the thread pointer points into, has procid in front of it.
constexpr int64_t kGlibcTid = 0x2d0, kMuslTid = 0x30;
constexpr int64_t kGoFirst = -0x100, kGoLast = -0x08;
constexpr uint64_t kPage = 4096;

// 0: a seccomp filter keeps it from us.
uint32_t ask_for_tid() {
  const int64_t tid = system_call(kGetTid);
  return tid > 0 ? uint32_t(tid) : 0;
}

bool holds(Slot* slot, uint64_t address, uint64_t value, uint32_t size) {
  uint64_t word = 0;
  const uint64_t local[2] = {(uint64_t)&word, size}, remote[2] = {address, size};
  return read_by_kernel(slot, local, remote, 1) == size && word == value;
}

// A thread that ends leaves its thread pointer to a later one. A word in the target's own memory that holds
// the thread's id shows that; without one, the kernel is asked each time.
uint64_t find_tid_word(Slot* slot) {
  if (slot->tid == 0) return 0;
  const uint64_t pointer = slot->claimed - 1;
  if (holds(slot, pointer + kGlibcTid, slot->tid, 4) && holds(slot, pointer + 16, pointer, 8))
    return pointer + kGlibcTid;
  if (holds(slot, pointer + kMuslTid, slot->tid, 4) && holds(slot, pointer, pointer, 8))
    return pointer + kMuslTid;
  for (int64_t at = kGoFirst; at <= kGoLast; at += 8)
    if (holds(slot, pointer + uint64_t(at), slot->tid, 8)) return pointer + uint64_t(at);
  return 0;
}

// The thread's stack from where it is up to its top, if that is certain: the first thread's, whose top uscope
// knows, and those with the C library's thread structure, which the thread pointer points to, on top of them.
AddressRange find_stack(Slot* slot, const PrivateHeader* header) {
  const AddressRange& first = header->known.first_stack;
  if (slot->busy >= first.begin && slot->busy < first.end) return first;
  const uint64_t pointer = slot->claimed - 1, page = slot->busy & ~(kPage - 1);
  const bool has_structure = slot->tid_word == pointer + kGlibcTid || slot->tid_word == pointer + kMuslTid;
  if (!has_structure || slot->busy >= pointer || !is_all_mapped(slot, page, pointer)) return {};
  return {page, pointer};
}

}  // namespace

bool is_all_mapped(Slot* slot, uint64_t begin, uint64_t end) {
  constexpr uint64_t kMostPages = 256, kPieces = 64;
  if (end <= begin || end - begin > kMostPages * kPage) return false;
  uint8_t bytes[kPieces];
  for (uint64_t at = begin; at < end;) {
    uint64_t pieces[kPieces][2];
    uint64_t count = 0;
    for (; count < kPieces && at < end; count++, at += kPage) pieces[count][0] = at, pieces[count][1] = 1;
    const uint64_t local[2] = {(uint64_t)bytes, count};
    if (read_by_kernel(slot, local, pieces, count) != int64_t(count)) return false;
  }
  return true;
}

extern "C" {

void uscope_thread_start(Slot* slot, PrivateHeader* header, uint64_t thread_blocks, uint64_t thread_stride,
                         uint64_t shared_bytes) {
  auto* shared = (SharedHeader*)header->shared;
  const uint32_t index = uint32_t(((uint64_t)slot - (uint64_t)header - kFirstSlotHeader) >> kSlotShift);
  // Threads that come here at once write the same.
  if (!header->knows && !header->is_own) {
    header->known = shared->known;
    header->knows = 1;
  }
  slot->index = index;
  slot->pid = header->pid;
  slot->tid = ask_for_tid();
  slot->tid_word = find_tid_word(slot);
  slot->random = ticks() | 1;
  slot->home = (uint64_t)header;
  slot->stack = find_stack(slot, header);
  slot->shared = header->shared;
  slot->shared_bytes = shared_bytes;
  if (slot->had_another_thread && shared->pairs_calls)
    zero_bytes((uint8_t*)slot + kSlotHeader - kSlotStride, kOpenCallsBytes);
  auto* block = (ThreadBlock*)((uint8_t*)shared + thread_blocks + index * thread_stride);
  block->tid = slot->tid;
  uint32_t used = __atomic_load_n(&shared->threads_used, __ATOMIC_RELAXED);
  while (used <= index && !__atomic_compare_exchange_n(&shared->threads_used, &used, index + 1, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  slot->shown_pid = shared->pid && slot->pid == shared->inner_pid ? shared->pid : slot->pid;
  slot->values = (uint64_t)block;
  // From here on the number can be taken back, if the thread is no more.
  __atomic_store_n(&block->process, slot->pid, __ATOMIC_RELEASE);
  // Whoever finds this tag need not ask whether the rest is there.
  __atomic_store_n(&slot->tag, slot->claimed, __ATOMIC_RELEASE);
}

uint64_t uscope_pid_tgid(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  if (slot->tid_word == 0 || *(const volatile uint32_t*)slot->tid_word != slot->tid) {
    slot->tid = ask_for_tid();
    ((ThreadBlock*)slot->values)->tid = slot->tid;
  }
  return uint64_t(slot->shown_pid) << 32 | slot->tid;
}

int64_t uscope_ns_pid_tgid(uint64_t, uint64_t, uint32_t* out, uint64_t size, uint64_t, Slot* slot) {
  if (size != 8) return kInvalid;
  const uint64_t both = uscope_pid_tgid(0, 0, 0, 0, 0, slot);
  out[0] = uint32_t(both);
  out[1] = uint32_t(both >> 32);
  return 0;
}

uint64_t uscope_uid_gid(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot*) {
  return uint64_t(system_call(kGetGid)) << 32 | uint32_t(system_call(kGetUid));
}

int64_t uscope_comm(uint8_t* to, uint64_t size, uint64_t, uint64_t, uint64_t, Slot*) {
  uint8_t name[16] = {};
  if (size == 0) return kInvalid;
  if (system_call(kPrctl, kGetName, (uint64_t)name) != 0) {
    zero_bytes(to, size);
    return kInvalid;
  }
  zero_bytes(to, size);
  for (uint64_t i = 0; i < 15 && i + 1 < size && name[i] != 0; i++) to[i] = name[i];
  return 0;
}

uint64_t uscope_cpu(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot*) {
  uint32_t low, high, processor;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
  return processor & 0xfff;
}

uint64_t uscope_numa_node(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot*) {
  uint32_t low, high, processor;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
  return processor >> 12;
}

// xorshift64*
uint64_t uscope_random(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  uint64_t x = slot->random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  slot->random = x;
  return (x * 0x2545f4914f6cdd1dULL) >> 32;
}

uint64_t uscope_cgroup(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return shared_header(slot)->cgroup_id;
}

uint64_t uscope_parent(uint8_t* to, uint64_t size, uint64_t, uint64_t, uint64_t, Slot* slot) {
  const SharedHeader* shared = shared_header(slot);
  const auto& parent = shared->parents[__atomic_load_n(&shared->parent_in_use, __ATOMIC_ACQUIRE) & 1];
  if (size == 0) return parent.pid;
  zero_bytes(to, size);
  for (uint64_t i = 0; i < 15 && i + 1 < size && parent.name[i] != 0; i++) to[i] = parent.name[i];
  return parent.pid;
}

uint64_t uscope_cookie(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return slot->site ? ((const SiteRecord*)slot->site)->cookie : 0;
}

int64_t uscope_signal(uint64_t signal, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return system_call(kKill, slot->pid, signal);
}

int64_t uscope_signal_thread(uint64_t signal, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return system_call(kTgKill, slot->pid, uint64_t(system_call(kGetTid)), signal);
}
}

}  // namespace uscope::engine::inproc
