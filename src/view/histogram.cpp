#include "view/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "event/aggregate.h"

namespace uscope::view {
namespace {

using event::Histogram;
using event::Integer;

constexpr int kBarWidth = 52;
constexpr std::string_view kSuffixes[] = {"", "K", "M", "G", "T", "P", "E"};

// A suffix stands for what the steps of this power of two are multiples of: [512, 1K) with one step to a
// power, but [896, 1024) with several.
std::string hist_label(uint32_t bucket, uint32_t bits) {
  uint64_t start = event::hist_bucket_start(bucket, bits);
  uint64_t index = bucket - 1;
  if (index < (uint64_t{1} << bits)) return std::to_string(start);
  uint64_t thousands = ((index >> bits) - 1) / 10;
  return fmt::format("{}{}", start >> (10 * thousands), kSuffixes[thousands]);
}

std::string lhist_label(int64_t number, int64_t step) {
  for (int power = 2; power > 0; --power) {
    int64_t unit = int64_t{1} << (10 * power);
    if (number != 0 && step % unit == 0 && number % unit == 0) {
      return fmt::format("{}{}", number / unit, kSuffixes[power]);
    }
  }
  return std::to_string(number);
}

struct Bound {
  Integer number;
  std::string label;
};

Bound bound_of(const Histogram& histogram, uint32_t bucket) {
  if (!histogram.is_linear) {
    return {Integer{event::hist_bucket_start(bucket, histogram.bits), false, 8},
            hist_label(bucket, histogram.bits)};
  }
  event::Layout layout;
  layout.lhist_min = histogram.min;
  layout.lhist_max = histogram.max;
  layout.lhist_step = histogram.step;
  int64_t start = event::lhist_bucket_start(bucket, layout);
  return {Integer{static_cast<uint64_t>(start), true, 8}, lhist_label(start, histogram.step)};
}

HistogramRow row_of(const Histogram& histogram, uint32_t bucket) {
  HistogramRow row;
  row.count = histogram.counts[bucket];
  if (bucket == 0) {
    Bound high = bound_of(histogram, 1);
    row.high = high.number;
    row.label = fmt::format("(..., {})", high.label);
    return row;
  }
  Bound low = bound_of(histogram, bucket);
  row.low = low.number;
  if (histogram.is_linear && bucket + 1 == histogram.counts.size()) {
    row.label = fmt::format("[{}, ...)", low.label);
    return row;
  }
  Bound high = bound_of(histogram, bucket + 1);
  row.high = high.number;
  row.label = low.number.bits + 1 == high.number.bits ? fmt::format("[{}]", low.label)
                                                      : fmt::format("[{}, {})", low.label, high.label);
  return row;
}

}  // namespace

std::vector<HistogramRow> histogram_rows(const Histogram& histogram) {
  std::vector<HistogramRow> rows;
  const auto& counts = histogram.counts;
  auto is_filled = [](uint64_t count) { return count != 0; };
  auto first = std::find_if(counts.begin(), counts.end(), is_filled);
  if (first == counts.end()) return rows;
  auto last = std::find_if(counts.rbegin(), counts.rend(), is_filled).base();
  for (auto at = first; at != last; ++at) {
    rows.push_back(row_of(histogram, static_cast<uint32_t>(at - counts.begin())));
  }
  return rows;
}

void append_histogram(std::string& out, const Histogram& histogram) {
  uint64_t most = 0;
  for (uint64_t count : histogram.counts) most = std::max(most, count);
  for (const HistogramRow& row : histogram_rows(histogram)) {
    auto width = static_cast<size_t>(static_cast<float>(row.count) / static_cast<float>(most) * kBarWidth);
    fmt::format_to(std::back_inserter(out), "{:<16}{:>8} |{:<{}}|\n", row.label, row.count,
                   std::string(width, '@'), kBarWidth);
  }
}

}  // namespace uscope::view
