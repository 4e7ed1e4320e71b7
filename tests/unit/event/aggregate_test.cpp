#include "event/aggregate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace uscope::event {
namespace {

using Kind = Layout::Kind;

std::vector<uint8_t> bytes_of(std::vector<uint64_t> words) {
  std::vector<uint8_t> out(words.size() * 8);
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

std::vector<uint64_t> merged(const Layout& layout, std::vector<std::vector<uint64_t>> copies) {
  std::vector<std::vector<uint8_t>> raw;
  for (auto& copy : copies) raw.push_back(bytes_of(copy));
  auto out = merge_copies(layout, raw);
  std::vector<uint64_t> words(out.size() / 8);
  std::memcpy(words.data(), out.data(), out.size());
  return words;
}

constexpr uint64_t minus(int64_t n) { return static_cast<uint64_t>(-n); }

TEST(Hist, BucketsAsBpftraceCountsThem) {
  EXPECT_EQ(bucket_of_hist(-1, 0), 0u);
  EXPECT_EQ(bucket_of_hist(std::numeric_limits<int64_t>::min(), 0), 0u);
  EXPECT_EQ(bucket_of_hist(0, 0), 1u);
  EXPECT_EQ(bucket_of_hist(1, 0), 2u);
  EXPECT_EQ(bucket_of_hist(2, 0), 3u);
  EXPECT_EQ(bucket_of_hist(3, 0), 3u);
  EXPECT_EQ(bucket_of_hist(4, 0), 4u);
  EXPECT_EQ(bucket_of_hist(std::numeric_limits<int64_t>::max(), 0), 64u);
  EXPECT_EQ(hist_buckets(0), 65u);
}

TEST(Hist, EveryBucketStartsWhereItsValuesDo) {
  for (uint32_t bits = 0; bits <= 5; ++bits) {
    for (uint32_t bucket = 1; bucket < hist_buckets(bits); ++bucket) {
      uint64_t start = hist_bucket_start(bucket, bits);
      ASSERT_EQ(bucket_of_hist(static_cast<int64_t>(start), bits), bucket) << "bits " << bits;
      uint64_t last = hist_bucket_start(bucket + 1, bits) - 1;
      ASSERT_EQ(bucket_of_hist(static_cast<int64_t>(last), bits), bucket) << "bits " << bits;
    }
    EXPECT_EQ(bucket_of_hist(std::numeric_limits<int64_t>::max(), bits), hist_buckets(bits) - 1);
    EXPECT_EQ(hist_bucket_start(hist_buckets(bits), bits), uint64_t{1} << 63);
  }
}

// What bpftrace 0.27.1 shows: hist(9, 2) in [8, 10), hist(1023, 2) in [896, 1024), hist(1000000, 5) in
// [976K, 992K).
TEST(Hist, FinerStepsWithBits) {
  EXPECT_EQ(hist_bucket_start(bucket_of_hist(9, 2), 2), 8u);
  EXPECT_EQ(hist_bucket_start(bucket_of_hist(1023, 2), 2), 896u);
  EXPECT_EQ(hist_bucket_start(bucket_of_hist(1000000, 5), 5), 976u * 1024);
}

TEST(Lhist, CountsBelowStepsAndAbove) {
  Layout layout{.kind = Kind::Lhist, .lhist_min = 10, .lhist_max = 21, .lhist_step = 2};
  EXPECT_EQ(lhist_buckets(layout), 7u);
  EXPECT_EQ(bucket_of_lhist(5, layout), 0u);
  EXPECT_EQ(bucket_of_lhist(-5, layout), 0u);
  EXPECT_EQ(bucket_of_lhist(10, layout), 1u);
  EXPECT_EQ(bucket_of_lhist(12, layout), 2u);
  // The span is no multiple of the step: bpftrace counts 20 as above.
  EXPECT_EQ(bucket_of_lhist(20, layout), 6u);
  EXPECT_EQ(bucket_of_lhist(std::numeric_limits<int64_t>::max(), layout), 6u);
  EXPECT_EQ(lhist_bucket_start(6, layout), 20);
}

TEST(Lhist, NonsenseBoundsStaySmall) {
  EXPECT_EQ(lhist_buckets({.kind = Kind::Lhist}), 2u);
  Layout huge{.kind = Kind::Lhist,
              .lhist_min = std::numeric_limits<int64_t>::min(),
              .lhist_max = std::numeric_limits<int64_t>::max(),
              .lhist_step = 1};
  EXPECT_LE(lhist_buckets(huge), 1u << 20);
}

TEST(Merge, AddsCountsAndSums) {
  EXPECT_EQ(merged({.kind = Kind::Count}, {{1}, {2}, {0}}), std::vector<uint64_t>{3});
  EXPECT_EQ(merged({.kind = Kind::Sum, .is_signed = true}, {{minus(5)}, {2}}),
            std::vector<uint64_t>{minus(3)});
  EXPECT_EQ(merged({.kind = Kind::Stats}, {{10, 2}, {5, 1}}), (std::vector<uint64_t>{15, 3}));
}

TEST(Merge, ExtremesIgnoreCopiesNeverSet) {
  EXPECT_EQ(merged({.kind = Kind::Min, .is_signed = true}, {{0, 0}, {5, 1}, {minus(3), 1}}),
            (std::vector<uint64_t>{minus(3), 1}));
  EXPECT_EQ(merged({.kind = Kind::Min}, {{0, 0}, {5, 1}, {minus(3), 1}}), (std::vector<uint64_t>{5, 1}));
  EXPECT_EQ(merged({.kind = Kind::Max, .is_signed = true}, {{0, 0}, {minus(7), 1}}),
            (std::vector<uint64_t>{minus(7), 1}));
  EXPECT_EQ(merged({.kind = Kind::Max}, {{0, 0}, {0, 0}}), (std::vector<uint64_t>{0, 0}));
}

TEST(Merge, SeriesByIntervalTheNewestEpochWins) {
  Layout layout{.kind = Kind::Tseries, .is_signed = true, .tseries_intervals = 2};
  layout.tseries_aggregation = "sum";
  EXPECT_EQ(merged(layout, {{5, 1, 10, 1, 1, 11}, {7, 2, 10, 9, 1, 9}}),
            (std::vector<uint64_t>{12, 3, 10, 1, 1, 11}));
  layout.tseries_aggregation = "min";
  EXPECT_EQ(merged(layout, {{5, 1, 10, 0, 0, 0}, {minus(7), 2, 10, 0, 0, 0}})[0], minus(7));
  layout.tseries_aggregation = "";
  EXPECT_EQ(merged(layout, {{5, 1000, 10, 0, 0, 0}, {7, 900, 10, 0, 0, 0}})[0], 5u);
}

TEST(Merge, ShortCopiesCountAsZeros) {
  auto out = merge_copies({.kind = Kind::Stats}, {{1, 0, 0}, {}});
  ASSERT_EQ(out.size(), 16u);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[8], 0);
}

}  // namespace
}  // namespace uscope::event
