// Histograms as rows: from the first bucket that holds something to the last, with the labels, bounds and
// bars that bpftrace 0.27 shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "event/value.h"

namespace uscope::view {

struct HistogramRow {
  // [low, high) as numbers; nothing where the bucket is open. hist's are unsigned (2^63 is a bound), lhist's
  // may be negative.
  std::optional<event::Integer> low, high;
  std::string label;  // "[512, 1K)"
  uint64_t count = 0;
};

std::vector<HistogramRow> histogram_rows(const event::Histogram& histogram);
// The bars, a line each.
void append_histogram(std::string& out, const event::Histogram& histogram);

}  // namespace uscope::view
