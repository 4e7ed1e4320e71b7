// The words that a map's aggregated value is made of, one copy for each CPU (kernel engine) or thread
// (in-process engine), and how copies are merged. Code generation writes these words; nobody else may guess
// them.
//
//   Count            u64 count
//   Sum              s64 or u64 sum
//   Min, Max         s64 or u64 value, u64 is_set
//   Avg, Stats       s64 or u64 total, u64 count
//   Hist             u64 buckets[hist_buckets(bits)]; bucket_of_hist says which
//   Lhist            u64 buckets[2 + (max - min) / step]: below min, the steps, max and above
//   Tseries          tseries_intervals times { s64 value, u64 count, u64 epoch }: epoch is the time divided
//   by
//                    the interval, at place epoch % tseries_intervals; count is the number of values (avg:
//                    value is their sum), 0 for a place never written; without an aggregation it is the
//                    nanosecond of the write, so that the newest copy wins
//   UserStack        u32 pid, u32 StackEnd, u64 count, u64 addresses[count] (innermost first; the highest bit
//                    marks an instruction that is no return address), `size` bytes in all
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "event/layout.h"

namespace uscope::event {

// Buckets of hist(n, bits): negative numbers, 0, 1, 2, … as bpftrace counts them.
uint32_t hist_buckets(uint32_t bits);
uint32_t bucket_of_hist(int64_t value, uint32_t bits);
// The smallest value of a bucket; the lowest bucket holds all negative numbers. One past the last bucket
// starts at 2^63, hence unsigned; never called for bucket 0.
uint64_t hist_bucket_start(uint32_t bucket, uint32_t bits);
uint32_t lhist_buckets(const Layout& layout);
uint32_t bucket_of_lhist(int64_t value, const Layout& layout);
// The smallest value of a bucket above the lowest.
int64_t lhist_bucket_start(uint32_t bucket, const Layout& layout);

// Merges the copies of one value into one of the same words. A copy that is too short counts as zeros.
std::vector<uint8_t> merge_copies(const Layout& layout, const std::vector<std::vector<uint8_t>>& copies);
// The size of the value's words; for what is no aggregate, the layout's own size.
uint64_t value_size(const Layout& layout);

}  // namespace uscope::event
