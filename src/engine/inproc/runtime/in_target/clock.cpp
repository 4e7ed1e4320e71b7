// Time: the processor's ticks by the parameters that uscope publishes, or the kernel where ticks do not
// serve. And the pairing of entries with exits, which is made of it.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

enum KernelClock : uint64_t { kMonotonic = 1, kBoottime = 7, kTai = 11 };

uint64_t ask_kernel(KernelClock clock) {
  uint64_t time[2] = {};
  if (system_call(kClockGetTime, clock, (uint64_t)time) != 0) return 0;
  return time[0] * 1000000000 + time[1];
}

uint64_t now(const Slot* slot, uint64_t TickClock::*base, KernelClock kernel) {
  const TickClock* clock = &shared_header(slot)->clock;
  if (!clock->uses_ticks) return ask_kernel(kernel);
  for (int tries = 0; tries < 64; tries++) {
    const uint32_t before = __atomic_load_n(&clock->sequence, __ATOMIC_ACQUIRE);
    const uint64_t passed = ticks() - clock->tick_base;
    const auto scaled = uint64_t((unsigned __int128)passed * clock->multiplier >> 32);
    const uint64_t time = clock->*base + scaled;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!(before & 1) && __atomic_load_n(&clock->sequence, __ATOMIC_RELAXED) == before) return time;
    __builtin_ia32_pause();
  }
  return ask_kernel(kernel);  // the writer was killed half-way
}

Frame* frames(Slot* slot) {
  return (Frame*)((uint8_t*)slot + kSlotHeader - kSlotStride);  // the slot's far end
}

}  // namespace

extern "C" {

uint64_t uscope_monotonic(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return now(slot, &TickClock::monotonic_base, kMonotonic);
}
uint64_t uscope_boottime(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return now(slot, &TickClock::boottime_base, kBoottime);
}
uint64_t uscope_tai(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  return now(slot, &TickClock::tai_base, kTai);
}

// A function's entry. Frames at or below this one's stack pointer have been left by other ways than an exit.
uint64_t uscope_enter(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  const uint64_t sp = slot->busy + uint64_t(int64_t(((const SiteRecord*)slot->site)->sp_offset));
  auto* block = (ThreadBlock*)slot->values;
  Frame* all = frames(slot);
  uint32_t used = slot->frames_used;
  for (; used > 0 && all[used - 1].sp <= sp; used--) block->abandoned++;
  if (used == kMostFrames) {
    block->too_deep++;
    slot->frames_used = used;
    return 0;
  }
  all[used].sp = sp;
  slot->frames_used = used + 1;
  all[used].time = ticks();
  return 1;
}

// At an exit: nanoseconds since the entry that belongs to it; all ones if none does.
uint64_t uscope_leave(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  const uint64_t now_ticks = ticks();
  const uint64_t sp = slot->busy + uint64_t(int64_t(((const SiteRecord*)slot->site)->sp_offset));
  auto* block = (ThreadBlock*)slot->values;
  const Frame* all = frames(slot);
  uint32_t used = slot->frames_used;
  for (; used > 0 && all[used - 1].sp < sp; used--) block->abandoned++;
  const bool is_paired = used > 0 && all[used - 1].sp == sp;
  slot->frames_used = is_paired ? used - 1 : used;
  if (!is_paired) {
    block->unpaired++;
    return ~uint64_t(0);
  }
  const uint64_t passed = now_ticks - all[used - 1].time;
  return uint64_t((unsigned __int128)passed * shared_header(slot)->clock.multiplier >> 32);
}
}

}  // namespace uscope::engine::inproc
