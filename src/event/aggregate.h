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
//   Tseries          tseries_intervals times { s64 value, u64 count, u64 epoch }
//   UserStack        u32 pid, u32 tid, u64 count, u64 addresses[count] (innermost first), `size` bytes in all
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "event/layout.h"

namespace uscope::event {

// Buckets of hist(n, bits): negative numbers, 0, 1, 2, … as bpftrace counts them.
uint32_t hist_buckets(uint32_t bits);
uint32_t bucket_of_hist(int64_t value, uint32_t bits);
// The smallest value of a bucket.
int64_t hist_bucket_start(uint32_t bucket, uint32_t bits);
uint32_t lhist_buckets(const Layout& layout);

// Merges the copies of one value into one of the same words.
std::vector<uint8_t> merge_copies(const Layout& layout, const std::vector<std::vector<uint8_t>>& copies);
// The size of the value's words.
uint64_t value_size(const Layout& layout);

}  // namespace uscope::event
