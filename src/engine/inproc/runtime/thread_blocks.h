// The numbers that threads of the target have, and its followed children's: which are in use, by whom, and
// giving back those of threads that are no more. What such a thread has counted stays in its block, where the
// next one goes on counting; what it has recorded is left to the reader. Owns nothing. Used from one thread.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "engine/inproc/runtime/shared_plan.h"

namespace uscope::engine::inproc {

class ThreadBlocks {
 public:
  ThreadBlocks(const SharedPlan& plan, std::span<uint8_t> shared) : plan_(plan), shared_(shared) {}

  uint32_t limit() const { return plan_.thread_limit - 1; }  // without uscope's own
  uint32_t in_use() const;
  // The numbers by the process that has them, as it sees itself. Those that are just being taken are in none.
  std::map<uint32_t, std::vector<uint32_t>> by_process() const;
  // Of threads that have certainly ended.
  void give_back(std::span<const uint32_t> numbers);

 private:
  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(shared_.data()); }
  bool is_free(uint32_t number) const;
  uint8_t* block(uint32_t number) const {
    return shared_.data() + plan_.thread_blocks + number * plan_.thread_stride;
  }
  void finish_chunks(const std::vector<bool>& is_ended);

  const SharedPlan& plan_;
  std::span<uint8_t> shared_;
};

}  // namespace uscope::engine::inproc
