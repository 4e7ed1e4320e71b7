// Entries and exits of functions, paired by the stack pointer and the site's cookie in a table of the
// thread's own. No order is assumed: signal handlers on stacks of their own and programs that switch stacks
// are right, as long as a stack stays with its thread. An entry that no exit followed (an exception, longjmp)
// stays until the next one at the same depth takes its place, or until its set is full and it is the oldest
// there.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

OpenCall* set_of(Slot* slot, uint64_t sp, uint64_t cookie) {
  auto* all = (OpenCall*)((uint8_t*)slot + kSlotHeader - kSlotStride);  // the slot's far end
  return all + kCallWays * open_call_set(sp, cookie);
}

uint64_t stack_pointer(const Slot* slot, const SiteRecord* site) {
  return slot->busy + uint64_t(int64_t(site->sp_offset));
}

// Whoever is interrupted here for good by a handler's longjmp leaves an empty place behind, never a mixed
// one.
void put(OpenCall* to, uint64_t sp, uint64_t cookie, uint64_t time) {
  auto* place = (volatile OpenCall*)to;
  place->sp = 0;
  place->cookie = cookie;
  place->time = time;
  place->sp = sp;
}

}  // namespace

extern "C" {

// Returns how many entries are forgotten for this one.
uint64_t uscope_enter(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  const auto* site = (const SiteRecord*)slot->site;
  const uint64_t sp = stack_pointer(slot, site);
  OpenCall* set = set_of(slot, sp, site->cookie);
  OpenCall* oldest = set;
  OpenCall* free = nullptr;
  OpenCall* same = nullptr;
  for (OpenCall* each = set; each < set + kCallWays; each++) {
    if (each->sp == sp && each->cookie == site->cookie) same = each;
    if (each->sp == 0) free = each;
    if (each->time < oldest->time) oldest = each;
  }
  OpenCall* place = same ? same : free ? free : oldest;
  const TickClock* clock = &shared_header(slot)->clock;
  const uint64_t now = clock->uses_ticks ? ticks() : uscope_monotonic(0, 0, 0, 0, 0, slot);
  put(place, sp, site->cookie, now);
  return place == same || !free;
}

// At an exit: nanoseconds since the entry that belongs to it; all ones if none does.
uint64_t uscope_leave(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, Slot* slot) {
  const TickClock* clock = &shared_header(slot)->clock;
  const uint64_t now = clock->uses_ticks ? ticks() : uscope_monotonic(0, 0, 0, 0, 0, slot);
  const auto* site = (const SiteRecord*)slot->site;
  const uint64_t sp = stack_pointer(slot, site);
  OpenCall* set = set_of(slot, sp, site->cookie);
  for (OpenCall* each = set; each < set + kCallWays; each++) {
    if (each->sp != sp || each->cookie != site->cookie) continue;
    // The processor may take the second reading before the first.
    const uint64_t passed = now > each->time ? now - each->time : 0;
    each->sp = 0;
    if (!clock->uses_ticks) return passed;
    return uint64_t((unsigned __int128)passed * clock->multiplier >> 32);
  }
  return ~uint64_t(0);
}
}

}  // namespace uscope::engine::inproc
