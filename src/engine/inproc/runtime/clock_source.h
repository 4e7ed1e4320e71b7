// Time for probes without a system call: measures how the processor's ticks relate to the kernel's clocks and
// publishes that in shared memory. To be refreshed now and then, since the kernel steers its clocks; what the
// target reads never runs backwards by it. Where the kernel itself does not trust the ticks, publishes that
// they are not to be used.
#pragma once

#include <cstdint>

#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {

class ClockSource {
 public:
  ClockSource();

  // For the first time, or again.
  void publish(TickClock& clock);
  bool uses_ticks() const { return uses_ticks_; }

 private:
  struct Sample {
    uint64_t ticks = 0;
    uint64_t monotonic = 0;
  };
  static Sample sample();
  static bool ticks_serve();

  bool uses_ticks_ = false;
  Sample first_;
};

}  // namespace uscope::engine::inproc
