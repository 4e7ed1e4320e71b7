#include "engine/inproc/thread_upkeep.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

namespace uscope::engine::inproc {
namespace {

constexpr std::chrono::seconds kRetryEvery{1};
// To stop a process for fewer is not worth it, as long as there are enough numbers.
constexpr uint32_t kWorthAStop = 16;
constexpr uint32_t kUsualStep = 512;

// How many threads a process has, those of them that have just ended included.
uint32_t threads_of(pid_t pid) {
  struct stat info {};
  if (::stat(fmt::format("/proc/{}/task", pid).c_str(), &info) != 0 || info.st_nlink < 2) return 0;
  return uint32_t(info.st_nlink - 2);
}

}  // namespace

ThreadUpkeep::ThreadUpkeep(pid_t pid, Deployment& deployment)
    : pid_(pid), deployment_(deployment), blocks_(deployment.code().shared_plan(), deployment.shared()) {
  plan_next();
}

// The more threads there are, the longer it takes to stop them.
void ThreadUpkeep::plan_next() {
  const uint32_t in_use = blocks_.in_use(), left = blocks_.limit() - in_use;
  look_at_ = in_use + std::clamp(left / 4, 1u, std::max(kUsualStep, in_use / 2));
  retry_at_ = Clock::now() + kRetryEvery;
}

void ThreadUpkeep::look() {
  const uint32_t in_use = blocks_.in_use();
  const bool is_short = blocks_.limit() - in_use < blocks_.limit() / 8;
  if (in_use < look_at_ && !(is_short && Clock::now() >= retry_at_)) return;
  take_back(is_short ? 1 : std::min(kWorthAStop, blocks_.limit() / 8));
  plan_next();
}

void ThreadUpkeep::take_back(uint32_t least) {
  const uint32_t inner_pid = reinterpret_cast<SharedHeader*>(deployment_.shared().data())->inner_pid;
  for (auto& [process, numbers] : blocks_.by_process()) {
    const bool is_the_target = process == inner_pid;
    // Ids of another pid namespace mean nothing here.
    if (!is_the_target && inner_pid != uint32_t(pid_)) continue;
    const pid_t pid = is_the_target ? pid_ : pid_t(process);
    if (!is_the_target && deployment_.is_shared_with(pid) == false) {
      blocks_.give_back(numbers);
      continue;
    }
    if (numbers.size() < threads_of(pid) + least) continue;
    // One that cannot be stopped now, or has ended, is looked at again.
    if (auto ended = deployment_.take_from_ended(pid, numbers)) blocks_.give_back(ended->numbers);
  }
}

}  // namespace uscope::engine::inproc
