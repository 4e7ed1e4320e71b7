#include "view/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "event/render.h"

namespace uscope::view {
namespace {

using event::Integer;
using event::TimeSeries;

constexpr int kWidth = 53;
constexpr int64_t kSecond = 1000000000;
// More rows than anyone can read; a map's intervals are bounded elsewhere, an epoch of a broken record is
// not.
constexpr uint64_t kMaxRows = 100000;

// The fraction of a second that the interval calls for: its name, its digits, and how many ns a digit is.
struct Fraction {
  std::string_view name;
  int digits;
  int64_t unit;
};

Fraction fraction_of(uint64_t interval_ns) {
  if (interval_ns == 0) return {"ns", 9, 1};
  if (interval_ns % kSecond == 0) return {"", 0, kSecond};
  if (interval_ns % 1000000 == 0) return {"ms", 3, 1000000};
  if (interval_ns % 1000 == 0) return {"us", 6, 1000};
  return {"ns", 9, 1};
}

double number_of(const Integer& value) {
  return value.is_signed ? static_cast<double>(value.as_signed()) : static_cast<double>(value.bits);
}

std::string text_of(const Integer& value) {
  std::string out;
  event::append_integer(out, value);
  return out;
}

struct Range {
  Integer low, high;
};

Range range_of(const TimeSeries& series) {
  Range range{series.points.front().value, series.points.front().value};
  for (const auto& point : series.points) {
    if (number_of(point.value) < number_of(range.low)) range.low = point.value;
    if (number_of(point.value) > number_of(range.high)) range.high = point.value;
  }
  if (range.low.bits != range.high.bits) return range;
  // One value lies in the middle, as long as there are numbers on both sides of it.
  bool is_signed = range.low.is_signed;
  if (range.low.bits != (is_signed ? static_cast<uint64_t>(INT64_MIN) : 0)) --range.low.bits;
  if (range.high.bits != (is_signed ? static_cast<uint64_t>(INT64_MAX) : UINT64_MAX)) ++range.high.bits;
  return range;
}

std::string row_of(const Range& range, const Integer* value) {
  double low = number_of(range.low), high = number_of(range.high);
  std::string line(kWidth, ' ');
  line.front() = line.back() = '|';
  if (low < 0 && high > 0)
    line[std::min<size_t>(static_cast<size_t>(kWidth * -low / (high - low)), kWidth - 1)] = '.';
  if (value == nullptr) return line + " -";
  double part = high > low ? (number_of(*value) - low) / (high - low) : 0.5;
  line[std::clamp<size_t>(static_cast<size_t>((kWidth - 1) * part), 0, kWidth - 1)] = '*';
  return line + " " + text_of(*value);
}

std::string time_of(int64_t wall_ns, const Fraction& fraction) {
  std::string out = event::time_text("%H:%M:%S", wall_ns);
  int64_t rest = ((wall_ns % kSecond) + kSecond) % kSecond;
  if (fraction.digits != 0) out += fmt::format(".{:0{}}", rest / fraction.unit, fraction.digits);
  return out;
}

}  // namespace

uint64_t newest_epoch(const event::MapContents& map) {
  uint64_t newest = 0;
  for (const auto& entry : map.entries) {
    auto* series = entry.value.get_if<TimeSeries>();
    if (series != nullptr && !series->points.empty()) newest = std::max(newest, series->points.back().epoch);
  }
  return newest;
}

event::Value within_window(event::Value value, uint64_t last_epoch) {
  if (auto* series = std::get_if<TimeSeries>(&value.data)) {
    std::erase_if(series->points, [&](const TimeSeries::Point& point) {
      return point.epoch < last_epoch && last_epoch - point.epoch >= series->intervals;
    });
  }
  return value;
}

int64_t interval_start_ns(const TimeSeries& series, uint64_t epoch, int64_t boot_to_wall_ns) {
  auto interval = static_cast<int64_t>(series.interval_ns);
  if (interval <= 0) return boot_to_wall_ns;
  // Unsigned: a broken record's epoch may overflow, which must only show a wrong time.
  auto wall = static_cast<int64_t>(epoch * series.interval_ns + static_cast<uint64_t>(boot_to_wall_ns));
  return wall - ((wall % interval) + interval) % interval;
}

void append_series(std::string& out, const TimeSeries& series, uint64_t last_epoch, int64_t boot_to_wall_ns) {
  if (series.points.empty()) {
    out += "<no data>";
    return;
  }
  uint64_t first = series.points.front().epoch;
  uint64_t last = std::max(last_epoch, series.points.back().epoch);
  last = std::min(last, first + kMaxRows);
  // bpftrace tells the interval from its rows, so one row alone has all digits.
  Fraction fraction = fraction_of(first == last ? 0 : series.interval_ns);
  std::string heading = fraction.digits == 0 ? "hh:mm:ss" : fmt::format("hh:mm:ss.{}", fraction.name);
  auto indent = static_cast<size_t>(8 + (fraction.digits == 0 ? 0 : 1 + fraction.digits) + 1);
  Range range = range_of(series);
  std::string scale =
      fmt::format("{:{}}{:<21}{:>{}}\n", "", indent, text_of(range.low), text_of(range.high), kWidth - 21);
  out += scale;
  out += fmt::format("{:<{}}|{:_<{}}|\n", heading, indent, "", kWidth - 2);
  auto next = series.points.begin();
  for (uint64_t epoch = first; epoch <= last; ++epoch) {
    const Integer* value = nullptr;
    if (next != series.points.end() && next->epoch == epoch) value = &(next++)->value;
    out += time_of(interval_start_ns(series, epoch, boot_to_wall_ns), fraction) + " " + row_of(range, value) +
           "\n";
  }
  out += fmt::format("{:{}}v{:_<{}}v\n", "", indent, "", kWidth - 2);
  out += scale;
}

}  // namespace uscope::view
