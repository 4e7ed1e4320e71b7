// The forked children of a target, as far as they have been heard of. A child has the parent's patches in its
// own copy of the code, with probes that are off (or on, where forks are followed). Those that are off are
// healed once they have lived for a while; all of them when uscope leaves. What is taken out of a child is
// what the child's own journal says, if it names this very process as its owner: a target may announce
// anything. Used by the guardian, on one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/inproc/target/remove.h"

namespace uscope::engine::inproc {

class Offspring {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Probes : uint32_t { Off, On };
  void add(pid_t pid, Probes probes);
  // When heal_due() has something to do next; nothing: never.
  std::optional<Clock::time_point> next_due() const;
  void heal_due();
  // Those that cannot be healed by then are left as they are.
  void heal_all(Clock::time_point until);
  // Those that nobody has told of: all that map the file with this inode number, but `parent`.
  void heal_untold(uint64_t inode, pid_t parent, Clock::time_point until);

 private:
  struct Member {
    pid_t pid = 0;
    uint64_t start_time = 0;
    std::optional<Clock::time_point> due;
  };
  static void heal(const Member& member, Clock::time_point until);
  std::vector<Member> members_;
};

// Takes what this very process has brought there out of a process: what its own journal says.
Result<RemoveReport> remove_own(pid_t pid, const RemoveOptions& options);

// Whether a process maps the file with this inode number: the memory that a target's descendants share with
// uscope. Nothing: one may not look.
std::optional<bool> maps_file(pid_t pid, uint64_t inode);
// Every process but `except` that does, in memory of its own: a child by vfork has none.
std::vector<pid_t> processes_that_map(uint64_t inode, pid_t except);

}  // namespace uscope::engine::inproc
