// Which of a process's threads are no more, so that others can have their slots. That a thread has ended is
// certain only while all stand still: the thread pointers of those that are there are then known, and a slot
// of another one belongs to nobody. A slot that is marked as in use stays, whoever was in it: a program may
// have kept that context elsewhere.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"
#include "engine/inproc/target/patch.h"

namespace uscope::engine::inproc {

struct EndedThreadsRequest {
  pid_t pid = 0;
  ProcessAddr private_memory, shared;  // where the process must have them
  std::vector<uint32_t> numbers;       // to be looked at: what threads of this process have, ascending
};

struct EndedThreads {
  std::vector<uint32_t> numbers;
  uint64_t stopped_ns = 0;
};

// Stops the process once and takes the slots of threads that have ended from them. `code` is where our code
// lies.
Result<EndedThreads> take_from_ended(const EndedThreadsRequest& request,
                                     const std::vector<AddressSpan>& code);

}  // namespace uscope::engine::inproc
