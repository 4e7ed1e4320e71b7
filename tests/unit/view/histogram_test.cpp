#include "view/histogram.h"

#include <gtest/gtest.h>

#include "event/aggregate.h"
#include "unit/view/recorded_output.h"

namespace uscope::view {

event::Value hist_of(const std::vector<int64_t>& values, uint32_t bits) {
  event::Histogram out{.is_linear = false, .bits = bits};
  out.counts.resize(event::hist_buckets(bits));
  for (int64_t value : values) ++out.counts[event::bucket_of_hist(value, bits)];
  return {out};
}

event::Value lhist_of(const std::vector<int64_t>& values, int64_t min, int64_t max, int64_t step) {
  event::Histogram out{.is_linear = true, .bits = 0, .min = min, .max = max, .step = step};
  event::Layout layout{
      .kind = event::Layout::Kind::Lhist, .lhist_min = min, .lhist_max = max, .lhist_step = step};
  out.counts.resize(event::lhist_buckets(layout));
  for (int64_t value : values) ++out.counts[event::bucket_of_lhist(value, layout)];
  return {out};
}

namespace {

std::string drawn(const event::Value& value) {
  std::string out;
  append_histogram(out, *value.get_if<event::Histogram>());
  return out;
}

std::vector<std::string> labels(const event::Value& value) {
  std::vector<std::string> out;
  for (const auto& row : histogram_rows(*value.get_if<event::Histogram>())) {
    if (row.count != 0) out.push_back(row.label);
  }
  return out;
}

const std::string kFull(52, '@');
const std::string kHalf = std::string(26, '@') + std::string(26, ' ');
const std::string kNone(52, ' ');

// Every expectation here is what bpftrace 0.27.1 printed for the same values.
TEST(Hist, BarsAreScaledToTheLargest) {
  EXPECT_EQ(drawn(hist_of({5, 0, -3, 1, 5})),
            "(..., 0)               1 |" + kHalf + "|\n" + "[0]                    1 |" + kHalf + "|\n" +
                "[1]                    1 |" + kHalf + "|\n" + "[2, 4)                 0 |" + kNone + "|\n" +
                "[4, 8)                 2 |" + kFull + "|\n");
}

TEST(Hist, LabelsOfPowers) {
  EXPECT_EQ(labels(hist_of({600, 1024, 1 << 20, 1ll << 40, INT64_MAX})),
            (std::vector<std::string>{"[512, 1K)", "[1K, 2K)", "[1M, 2M)", "[1T, 2T)", "[4E, 8E)"}));
}

TEST(Hist, LabelsOfSteps) {
  EXPECT_EQ(labels(hist_of({3, 7, 9, 31, 1023, 1024, 1280}, 2)),
            (std::vector<std::string>{"[3]", "[7]", "[8, 10)", "[28, 32)", "[896, 1024)", "[1024, 1280)",
                                      "[1280, 1536)"}));
  EXPECT_EQ(labels(hist_of({100, 1000000, INT64_MAX}, 5)),
            (std::vector<std::string>{"[100, 102)", "[976K, 992K)", "[8064P, 8192P)"}));
  EXPECT_EQ(labels(hist_of({INT64_MAX}, 1)), (std::vector<std::string>{"[6E, 8E)"}));
}

TEST(Lhist, BelowAndAbove) {
  EXPECT_EQ(labels(lhist_of({-1, 7, 55, 100}, 0, 100, 10)),
            (std::vector<std::string>{"(..., 0)", "[0, 10)", "[50, 60)", "[100, ...)"}));
  EXPECT_EQ(labels(lhist_of({5, 12, 20, 21}, 10, 21, 2)),
            (std::vector<std::string>{"(..., 10)", "[12, 14)", "[20, ...)"}));
}

TEST(Lhist, SuffixesOnlyForSuchSteps) {
  EXPECT_EQ(labels(lhist_of({5, 2050, 99999}, 0, 4096, 1024)),
            (std::vector<std::string>{"[0, 1K)", "[2K, 3K)", "[4K, ...)"}));
  EXPECT_EQ(labels(lhist_of({5, 1148576}, 0, 4194304, 1048576)),
            (std::vector<std::string>{"[0, 1M)", "[1M, 2M)"}));
  EXPECT_EQ(labels(lhist_of({1020, 1030}, 0, 2000, 8)),
            (std::vector<std::string>{"[1016, 1024)", "[1024, 1032)"}));
  EXPECT_EQ(labels(lhist_of({2100}, 100, 4196, 1024)), (std::vector<std::string>{"[1124, 2148)"}));
  EXPECT_EQ(labels(lhist_of({1500}, 0, 1000000, 1000)), (std::vector<std::string>{"[1000, 2000)"}));
}

TEST(Hist, NothingCountedNothingDrawn) { EXPECT_EQ(drawn(hist_of({})), ""); }

}  // namespace
}  // namespace uscope::view
