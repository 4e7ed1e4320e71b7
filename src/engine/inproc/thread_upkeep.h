// Keeps numbers for new threads at hand: when many are in use, those of threads and of followed children that
// have ended are taken back. look() is cheap as long as there are enough. Borrows the deployment. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "engine/inproc/runtime/thread_blocks.h"
#include "engine/inproc/target/deployment.h"

namespace uscope::engine::inproc {

class ThreadUpkeep {
 public:
  ThreadUpkeep(pid_t pid, Deployment& deployment);
  void look();

 private:
  using Clock = std::chrono::steady_clock;

  // From processes in which at least so many have ended.
  void take_back(uint32_t least);
  void plan_next();

  pid_t pid_;
  Deployment& deployment_;
  ThreadBlocks blocks_;
  uint32_t look_at_ = 0;        // when so many are in use
  Clock::time_point retry_at_;  // or when few are left
};

}  // namespace uscope::engine::inproc
