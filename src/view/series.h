// A tseries as bpftrace 0.27 draws it: a line an interval, the value as a star between the smallest and the
// largest.
#pragma once

#include <cstdint>
#include <string>

#include "event/value.h"

namespace uscope::view {

// Rows up to interval `last_epoch`, where other keys of the map may have values and this one has none.
void append_series(std::string& out, const event::TimeSeries& series, uint64_t last_epoch,
                   int64_t boot_to_wall_ns);

// The newest interval that any entry of a map of series has; 0 for other maps.
uint64_t newest_epoch(const event::MapContents& map);
// A series without what is too old to be shown beside `last_epoch`; any other value as it is.
event::Value within_window(event::Value value, uint64_t last_epoch);

// When an interval began, on the wall clock, in nanoseconds: intervals are aligned there.
int64_t interval_start_ns(const event::TimeSeries& series, uint64_t epoch, int64_t boot_to_wall_ns);

}  // namespace uscope::view
