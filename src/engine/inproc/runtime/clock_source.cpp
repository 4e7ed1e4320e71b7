#include "engine/inproc/runtime/clock_source.h"

#include <time.h>
#include <x86intrin.h>

#include "base/fd.h"

namespace uscope::engine::inproc {
namespace {

// Long enough that the error of reading two clocks is some parts in a million.
constexpr uint64_t kShortestSpan = 2'000'000;  // ns
constexpr uint64_t kBillion = 1'000'000'000;

uint64_t read(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return uint64_t(time.tv_sec) * kBillion + uint64_t(time.tv_nsec);
}

// How far another clock is ahead of the monotonic one.
uint64_t offset_of(clockid_t clock) {
  uint64_t best = UINT64_MAX, offset = 0;
  for (int tries = 0; tries < 5; tries++) {
    const uint64_t before = read(CLOCK_MONOTONIC), other = read(clock), after = read(CLOCK_MONOTONIC);
    if (after - before >= best) continue;
    best = after - before;
    offset = other - (before + best / 2);
  }
  return offset;
}

}  // namespace

// The kernel has looked whether the ticks are steady and the same on all processors.
bool ClockSource::ticks_serve() {
  auto name = read_text_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return name && name->starts_with("tsc");
}

ClockSource::Sample ClockSource::sample() {
  Sample out;
  uint64_t best = UINT64_MAX;
  for (int tries = 0; tries < 10; tries++) {
    const uint64_t before = __rdtsc(), time = read(CLOCK_MONOTONIC), after = __rdtsc();
    if (after - before >= best) continue;
    best = after - before;
    out = {before + best / 2, time};
  }
  return out;
}

ClockSource::ClockSource() : uses_ticks_(ticks_serve()), first_(sample()) {}

void ClockSource::publish(TickClock& clock) {
  if (!uses_ticks_) return;
  while (!clock.uses_ticks && read(CLOCK_MONOTONIC) - first_.monotonic < kShortestSpan) {
  }
  const Sample now = sample();
  auto scaled = [](uint64_t span, uint64_t by, uint64_t over) {
    return uint64_t((unsigned __int128)span * by / over);
  };
  const uint64_t span = now.monotonic - first_.monotonic, ticks = now.ticks - first_.ticks;
  uint64_t multiplier = scaled(span, uint64_t(1) << 32, ticks);
  uint64_t base = now.monotonic;
  if (clock.uses_ticks) {
    // Go on from where the old line stands, and be right in a second.
    const uint64_t old = clock.monotonic_base +
                         uint64_t((unsigned __int128)(now.ticks - clock.tick_base) * clock.multiplier >> 32);
    const auto error = int64_t(now.monotonic - old);
    if (error > -int64_t(kBillion / 1000) && error < int64_t(kBillion)) {
      base = old;
      multiplier += uint64_t((__int128)multiplier * error / int64_t(kBillion));
    } else {
      // The machine slept, and one of the two clocks did not go on, or began anew: the ticks are as long as
      // before, and are measured from here.
      multiplier = clock.multiplier;
      first_ = now;
    }
  }
  const uint64_t boottime = offset_of(CLOCK_BOOTTIME), tai = offset_of(CLOCK_TAI);
  const uint32_t sequence = clock.sequence | 1;
  __atomic_store_n(&clock.sequence, sequence, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  clock.tick_base = now.ticks;
  clock.multiplier = multiplier;
  clock.monotonic_base = base;
  clock.boottime_base = base + boottime;
  clock.tai_base = base + tai;
  __atomic_store_n(&clock.sequence, sequence + 1, __ATOMIC_RELEASE);
  __atomic_store_n(&clock.uses_ticks, 1, __ATOMIC_RELEASE);
}

}  // namespace uscope::engine::inproc
