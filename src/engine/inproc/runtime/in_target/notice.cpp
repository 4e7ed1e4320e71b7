// Telling uscope what the target is about to do, and waiting until uscope has done its part: probes of a
// library that has just been loaded are in place before any of its code runs. The wait is bounded: a uscope
// that does not answer (it is stopped, or its own output is) costs the target half a second, once: until it
// answers again nobody waits for it.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kWait = 0, kWake = 1;
constexpr int64_t kTimedOut = -110;
constexpr uint64_t kWaitNs = 5'000'000;
constexpr uint32_t kMostWaits = 100, kMostTurns = 10000;

// False: there was no answer.
bool tell(SharedHeader* shared, uint64_t kind) {
  __atomic_fetch_or(&shared->notice_kinds, uint32_t(1) << kind, __ATOMIC_RELEASE);
  const uint32_t number = __atomic_add_fetch(&shared->notices, 1, __ATOMIC_RELEASE);
  system_call(kFutex, (uint64_t)&shared->notices, kWake, 1);
  const uint32_t in_vain = __atomic_load_n(&shared->notice_in_vain, __ATOMIC_RELAXED);
  const bool is_asleep =
      in_vain != 0 && int32_t(__atomic_load_n(&shared->notices_answered, __ATOMIC_RELAXED) - in_vain) < 0;
  if (is_asleep && kind != kSandboxAllNotice) return false;
  const uint64_t timeout[2] = {0, kWaitNs};
  uint32_t waits = 0;
  for (uint32_t turns = 0; turns < kMostTurns && waits < kMostWaits; turns++) {
    const uint32_t answered = __atomic_load_n(&shared->notices_answered, __ATOMIC_ACQUIRE);
    if (int32_t(answered - number) >= 0) return true;
    if (!__atomic_load_n(&shared->answers_notices, __ATOMIC_ACQUIRE)) break;
    if (system_call(kFutex, (uint64_t)&shared->notices_answered, kWait, answered, (uint64_t)timeout) ==
        kTimedOut)
      waits++;
  }
  if (waits == kMostWaits) __atomic_store_n(&shared->notice_in_vain, number, __ATOMIC_RELAXED);
  return false;
}

// No thread of this process, present or to come, finds a slot from here on: no probe runs, and none makes a
// system call. One that is running ends as it would.
void switch_off(PrivateHeader* header, const SharedHeader* shared) {
  __atomic_store_n(&header->alive, kSwitchedOff, __ATOMIC_SEQ_CST);
  zero_bytes((uint8_t*)header + kHintsOffset, kHintsBytes);
  const uint32_t used = __atomic_load_n(&shared->threads_used, __ATOMIC_RELAXED);
  for (uint64_t i = 0; i < used && i < kMostThreads; i++) {
    auto* slot = (Slot*)((uint64_t)header + kFirstSlotHeader + (i << kSlotShift));
    if (slot->tag != 0) __atomic_store_n(&slot->tag, 0, __ATOMIC_RELAXED);
  }
}

// What is to come may kill for any system call. This thread makes none any more; of others, which may be put
// under the same filter, uscope sees to it that none is in our code when we go on.
void prepare_for_sandbox(SharedHeader* shared, uint64_t kind, const Slot* slot) {
  switch_off((PrivateHeader*)slot->home, shared);
  uint64_t nobody = 0;
  if (__atomic_compare_exchange_n(&shared->sandbox_tag, &nobody, slot->claimed, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED))
    __atomic_store_n(&shared->sandbox_pid, slot->pid, __ATOMIC_RELEASE);
  const bool is_answered = __atomic_load_n(&shared->answers_notices, __ATOMIC_ACQUIRE) && tell(shared, kind);
  // The patches are still there: in a child to come, too.
  if (!is_answered) __atomic_store_n(&shared->follows_forks, 0, __ATOMIC_RELEASE);
}

}  // namespace

extern "C" {

uint64_t uscope_notice(uint64_t kind, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  auto* shared = (SharedHeader*)shared_header(slot);
  if (kind == kSandboxNotice || kind == kSandboxAllNotice) {
    prepare_for_sandbox(shared, kind, slot);
    return 0;
  }
  if (!__atomic_load_n(&shared->answers_notices, __ATOMIC_ACQUIRE)) return 0;
  if (kind == kExecNotice) {
    // A vfork child executes something else in the parent's memory; that is none of our business.
    if (uint32_t(system_call(kGetPid)) != slot->pid) return 0;
    __atomic_store_n(&shared->exec_tid, uint32_t(system_call(kGetTid)), __ATOMIC_RELEASE);
  }
  tell(shared, kind);
  return 0;
}
}

}  // namespace uscope::engine::inproc
