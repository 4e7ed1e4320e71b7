// Whether a process that is under seccomp outlives system calls that code of ours will make in it, for as
// long as that code is there. What a filter does with a call is found out by going through its program with
// everything that is not known of the call left open: whatever could come of it counts.
//
// Reading another process's filters takes CAP_SYS_ADMIN and a kernel with CONFIG_CHECKPOINT_RESTORE. Without,
// filters that are ours too (a container's) are tried out by a child of our own; others are taken for deadly.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace uscope::process {

class SeizedProcess;

struct CallToCome {
  uint32_t number = 0;
  bool may_fail = false;  // an error is an answer too; else the call must go through
  bool knows_first = false;
  uint64_t first_argument = 0;  // if that is known
};

// By how bad it is. Harm is whatever neither goes through nor gives an error: a signal, a wait for a
// supervisor, a success that is none.
enum class FilterOutcome { Passes, Fails, Harms };
// The worst that can come of a call of a 64-bit program.
FilterOutcome outcome_of(std::span<const sock_filter> filter, const CallToCome& call);

// What becomes of a call in a thread of a process, which is stopped by this thread of ours. Remembers what it
// has found out: most threads have the same filters.
class SeccompOf {
 public:
  explicit SeccompOf(pid_t pid) : pid_(pid) {}
  FilterOutcome outcome(pid_t tid, const CallToCome& call);
  // Whether the last thread's filters could not be read, and were taken for deadly.
  bool is_guess() const { return is_guess_; }

 private:
  struct Known {
    std::vector<sock_filter> filter;  // empty: those that we are under ourselves
    uint32_t call = 0;
    FilterOutcome outcome = FilterOutcome::Harms;
  };
  FilterOutcome judge(const std::vector<sock_filter>& filter, const CallToCome& call);

  pid_t pid_;
  std::vector<Known> known_;
  bool is_guess_ = false;
};

// Looks at every thread. The Error says what stands in the way.
Status check_seccomp(const SeizedProcess& process, std::span<const CallToCome> calls);

}  // namespace uscope::process
