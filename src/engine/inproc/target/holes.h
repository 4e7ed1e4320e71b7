// Places for the 5-byte jumps that do not fit where they are needed: filler within reach of a 2-byte jump, or
// instructions nearby that can be moved away. Also keeps account of which bytes are spoken for. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/inproc/target/function_plan.h"
#include "engine/inproc/target/plan.h"
#include "engine/inproc/target/text_facts.h"

namespace uscope::engine::inproc {

// Addresses of one image that are spoken for; outside of [begin, end) nothing ever is.
class Taken {
 public:
  Taken(uint64_t begin, uint64_t end) : begin_(begin), bits_((end - begin + 63) / 64) {}
  bool overlaps(uint64_t begin, uint64_t end) const {
    for (uint64_t a = begin; a < end; ++a)
      if (has(a)) return true;
    return false;
  }
  void add(uint64_t begin, uint64_t end) {
    for (uint64_t a = begin; a < end; ++a)
      if (uint64_t at = a - begin_; at / 64 < bits_.size()) bits_[at / 64] |= uint64_t(1) << (at % 64);
  }
  bool has(uint64_t address) const {
    const uint64_t at = address - begin_;
    return at / 64 < bits_.size() && (bits_[at / 64] >> (at % 64) & 1) != 0;
  }

 private:
  uint64_t begin_;
  std::vector<uint64_t> bits_;
};

class HoleFinder {
 public:
  HoleFinder(TextFacts& facts, Taken& taken) : facts_(facts), taken_(taken) {}

  // For a window of this function that only a 2-byte jump fits in. What is found is taken.
  std::optional<PatchPlan::Hole> find(const x86::Window& window, const FunctionPlan& function);

 private:
  std::optional<PatchPlan::Hole> in_filler(const x86::Window& window, const x86::Flow& flow) const;
  std::optional<PatchPlan::Hole> by_moving(const x86::Window& window, const x86::Flow& flow,
                                           const FaultFacts& faults) const;
  std::optional<PatchPlan::Hole> by_moving_neighbours(const x86::Window& window) const;
  std::optional<PatchPlan::Hole> usable(ImageAddr address, Bytes filler, uint64_t from) const;

  TextFacts& facts_;
  Taken& taken_;
};

}  // namespace uscope::engine::inproc
