// What the compiled code can call inside the target: the helpers that the kernel would serve, by the kernel's
// names and results. Each takes the helper's own arguments, then the thread's slot as the sixth. They run on
// the slot's stack, one at a time a thread; integer registers only; no library. Built into a blob of its own
// (see src/CMakeLists.txt) and never linked into uscope.
#pragma once

#include "engine/inproc/runtime/hash_map.h"
#include "engine/inproc/runtime/in_target/system_calls.h"
#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {

extern "C" {

// The thread's first hit. The rest as SharedPlan has it.
void uscope_thread_start(Slot* slot, PrivateHeader* header, uint64_t thread_blocks, uint64_t thread_stride,
                         uint64_t shared_bytes);

uint64_t uscope_map_lookup(const MapInfo* map, const uint8_t* key, uint64_t, uint64_t, uint64_t, Slot* slot);
// The same, where nothing was written since a text was read that may be the key.
uint64_t uscope_map_lookup_text(const MapInfo* map, const uint8_t* key, uint64_t, uint64_t, uint64_t,
                                Slot* slot);
int64_t uscope_map_update(const MapInfo* map, const uint8_t* key, const uint8_t* value, uint64_t flags,
                          uint64_t, Slot* slot);
int64_t uscope_map_delete(const MapInfo* map, const uint8_t* key, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_map_lookup_thread(const MapInfo* map, const uint8_t* key, uint64_t thread, uint64_t, uint64_t,
                                  Slot* slot);
int64_t uscope_map_for_each(const MapInfo* map, uint64_t callback, uint64_t context, uint64_t flags, uint64_t,
                            Slot* slot);
int64_t uscope_loop(uint64_t rounds, uint64_t callback, uint64_t context, uint64_t flags, uint64_t,
                    Slot* slot);

int64_t uscope_read(uint8_t* to, uint64_t size, uint64_t from, uint64_t, uint64_t, Slot* slot);
int64_t uscope_read_text(uint8_t* to, uint64_t size, uint64_t from, uint64_t, uint64_t, Slot* slot);
int64_t uscope_copy(uint8_t* to, uint64_t size, const uint8_t* from, uint64_t, uint64_t, Slot* slot);
int64_t uscope_copy_text(uint8_t* to, uint64_t size, const uint8_t* from, uint64_t, uint64_t, Slot* slot);
int64_t uscope_compare_text(const uint8_t* a, uint64_t size, const uint8_t* b, uint64_t, uint64_t,
                            Slot* slot);

int64_t uscope_ring_output(const MapInfo* map, const uint8_t* data, uint64_t size, uint64_t flags, uint64_t,
                           Slot* slot);

uint64_t uscope_monotonic(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_boottime(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_tai(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);

uint64_t uscope_pid_tgid(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
int64_t uscope_ns_pid_tgid(uint64_t, uint64_t, uint32_t* out, uint64_t size, uint64_t, Slot* slot);
uint64_t uscope_uid_gid(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
int64_t uscope_comm(uint8_t* to, uint64_t size, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_cpu(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_numa_node(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_random(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_cgroup(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_parent(uint8_t* to, uint64_t size, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_cookie(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
int64_t uscope_signal(uint64_t signal, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
int64_t uscope_signal_thread(uint64_t signal, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);

int64_t uscope_unwind(const Registers* registers, uint8_t* to, uint64_t size, uint64_t is_entry,
                      const MapInfo* state, Slot* slot);

// To uscope; waits for the answer.
uint64_t uscope_notice(uint64_t kind, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);

// Pairing of entries and exits, this engine's own.
uint64_t uscope_enter(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
uint64_t uscope_leave(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot);
}

// How many bytes from an address on can be loaded without asking anybody: those of the thread's own stack, of
// the page that its stack pointer is in (the stub has just written to it), and those that never change.
uint64_t certain_bytes(Slot* slot, uint64_t from);

// False: some of it is not there, or there is no gate for it (ReadableMemory::load_gate).
bool load_through_gate(const Slot* slot, uint8_t* to, uint64_t from, uint64_t size);

inline const SharedHeader* shared_header(const Slot* slot) { return (const SharedHeader*)slot->shared; }

// Whether every page of [begin, end), begin at a page's start, can be read now. No for too many of them.
bool is_all_mapped(Slot* slot, uint64_t begin, uint64_t end);

inline uint64_t ticks() {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t(high) << 32 | low;
}

inline int64_t system_call(SystemCall number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
                           uint64_t e = 0, uint64_t f = 0) {
  int64_t result;
  register uint64_t r10 __asm__("r10") = d;
  register uint64_t r8 __asm__("r8") = e;
  register uint64_t r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(uint64_t(number)), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

// The kernel reads the process's own memory for us: what is not there fails. By the thread's number: the
// first thread may have ended, and a vfork child has another process's.
inline int64_t read_by_kernel(Slot* slot, const void* local, const void* pieces, uint64_t count) {
  slot->rounds_left -= kRoundsOfKernelRead;
  const int64_t tid = system_call(kGetTid);
  return system_call(kProcessVmReadv, tid > 0 ? uint64_t(tid) : slot->pid, (uint64_t)local, 1,
                     (uint64_t)pieces, count);
}

}  // namespace uscope::engine::inproc
