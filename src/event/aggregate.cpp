#include "event/aggregate.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace uscope::event {
namespace {

using Words = std::vector<uint64_t>;
using Kind = Layout::Kind;

constexpr uint32_t kMaxHistBits = 5;
constexpr uint32_t kMaxBuckets = 1u << 20;
constexpr uint64_t kMaxIntervals = 1u << 20;

uint32_t clamp_bits(uint32_t bits) { return std::min(bits, kMaxHistBits); }

uint64_t interval_count(const Layout& layout) { return std::min(layout.tseries_intervals, kMaxIntervals); }

Words words_of(const std::vector<uint8_t>& copy, size_t count) {
  Words words(count, 0);
  std::memcpy(words.data(), copy.data(), std::min(copy.size(), count * sizeof(uint64_t)));
  return words;
}

bool less(uint64_t a, uint64_t b, bool is_signed) {
  return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
}

void merge_extreme(const Layout& layout, Words& into, const Words& from) {
  if (from[1] == 0) return;
  bool wins = layout.kind == Kind::Min ? less(from[0], into[0], layout.is_signed)
                                       : less(into[0], from[0], layout.is_signed);
  if (into[1] == 0 || wins) into = from;
}

// One interval of a series: { value, count, epoch }.
void merge_interval(const Layout& layout, uint64_t* into, const uint64_t* from) {
  if (from[1] == 0) return;
  if (into[1] == 0 || from[2] > into[2]) {
    std::copy_n(from, 3, into);
    return;
  }
  if (from[2] < into[2]) return;
  const std::string& how = layout.tseries_aggregation;
  if (how.empty()) {
    if (from[1] > into[1]) std::copy_n(from, 2, into);
    return;
  }
  if (how == "min") {
    if (less(from[0], into[0], layout.is_signed)) into[0] = from[0];
  } else if (how == "max") {
    if (less(into[0], from[0], layout.is_signed)) into[0] = from[0];
  } else {
    into[0] += from[0];
  }
  into[1] += from[1];
}

void merge_words(const Layout& layout, Words& into, const Words& from) {
  switch (layout.kind) {
    case Kind::Min:
    case Kind::Max:
      merge_extreme(layout, into, from);
      return;
    case Kind::Tseries:
      for (size_t i = 0; i + 3 <= into.size(); i += 3) merge_interval(layout, &into[i], &from[i]);
      return;
    default:
      for (size_t i = 0; i < into.size(); ++i) into[i] += from[i];
  }
}

bool is_aggregate(Kind kind) { return kind >= Kind::Count && kind <= Kind::Tseries; }

}  // namespace

uint32_t hist_buckets(uint32_t bits) {
  bits = clamp_bits(bits);
  return ((64 - bits) << bits) + 1;
}

uint32_t bucket_of_hist(int64_t value, uint32_t bits) {
  bits = clamp_bits(bits);
  if (value < 0) return 0;
  uint64_t number = static_cast<uint64_t>(value);
  uint64_t steps = uint64_t{1} << bits;
  if (number < steps) return static_cast<uint32_t>(number) + 1;
  uint32_t power = static_cast<uint32_t>(std::bit_width(number)) - 1 - bits;
  return ((power + 1) << bits) + static_cast<uint32_t>((number >> power) & (steps - 1)) + 1;
}

uint64_t hist_bucket_start(uint32_t bucket, uint32_t bits) {
  bits = clamp_bits(bits);
  if (bucket == 0) return 0;
  uint64_t index = bucket - 1;
  uint64_t steps = uint64_t{1} << bits;
  if (index < steps) return index;
  uint64_t power = std::min<uint64_t>((index >> bits) - 1, 63 - bits);
  return (steps + (index & (steps - 1))) << power;
}

uint32_t lhist_buckets(const Layout& layout) {
  if (layout.lhist_step <= 0 || layout.lhist_max <= layout.lhist_min) return 2;
  uint64_t span = static_cast<uint64_t>(layout.lhist_max) - static_cast<uint64_t>(layout.lhist_min);
  return static_cast<uint32_t>(
      std::min<uint64_t>(span / static_cast<uint64_t>(layout.lhist_step) + 2, kMaxBuckets));
}

uint32_t bucket_of_lhist(int64_t value, const Layout& layout) {
  if (value < layout.lhist_min || layout.lhist_step <= 0) return 0;
  uint32_t last = lhist_buckets(layout) - 1;
  uint64_t distance = static_cast<uint64_t>(value) - static_cast<uint64_t>(layout.lhist_min);
  return static_cast<uint32_t>(
      std::min<uint64_t>(distance / static_cast<uint64_t>(layout.lhist_step) + 1, last));
}

int64_t lhist_bucket_start(uint32_t bucket, const Layout& layout) {
  uint64_t steps = bucket == 0 ? 0 : bucket - 1;
  return static_cast<int64_t>(static_cast<uint64_t>(layout.lhist_min) +
                              steps * static_cast<uint64_t>(layout.lhist_step));
}

uint64_t value_size(const Layout& layout) {
  switch (layout.kind) {
    case Kind::Count:
    case Kind::Sum:
      return 8;
    case Kind::Min:
    case Kind::Max:
    case Kind::Avg:
    case Kind::Stats:
      return 16;
    case Kind::Hist:
      return uint64_t{8} * hist_buckets(layout.hist_bits);
    case Kind::Lhist:
      return uint64_t{8} * lhist_buckets(layout);
    case Kind::Tseries:
      return 24 * interval_count(layout);
    default:
      return layout.size;
  }
}

std::vector<uint8_t> merge_copies(const Layout& layout, const std::vector<std::vector<uint8_t>>& copies) {
  if (!is_aggregate(layout.kind)) return copies.empty() ? std::vector<uint8_t>() : copies.front();
  size_t count = value_size(layout) / sizeof(uint64_t);
  Words merged(count, 0);
  for (const auto& copy : copies) merge_words(layout, merged, words_of(copy, count));
  std::vector<uint8_t> out(count * sizeof(uint64_t));
  if (!out.empty()) std::memcpy(out.data(), merged.data(), out.size());
  return out;
}

}  // namespace uscope::event
