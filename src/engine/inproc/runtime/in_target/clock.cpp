// Time: the processor's ticks by the parameters that uscope publishes, or the kernel where ticks do not
// serve.
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
}

}  // namespace uscope::engine::inproc
