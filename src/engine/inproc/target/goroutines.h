// Goroutines that a signal has parked (asynchronous preemption, Go 1.14 and later): where each goes on is
// kept on its own stack, which no thread is on. Found through the runtime's list of all goroutines. The
// process must be stopped. Reads only.
#pragma once

#include <functional>
#include <vector>

#include "engine/inproc/target/patch.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

// One Go runtime in a process.
struct GoRuntime {
  ProcessAddr all_goroutines;  // runtime.allgs: a slice of *g
  AddressSpan preempt2;        // runtime.asyncPreempt2: where a parked one is parked
};

class Goroutines {
 public:
  Goroutines(const process::RemoteMemory& memory, const GoRuntime& runtime)
      : memory_(memory), runtime_(runtime) {}

  // Every word that may be where a parked goroutine goes on: of those parked for good, and of those on the
  // threads' own stacks that are about to be.
  void visit(const std::vector<ProcessAddr>& thread_stacks,
             const std::function<void(ProcessAddr kept_at, ProcessAddr word)>& found);

 private:
  std::vector<ProcessAddr> parked_stacks() const;

  const process::RemoteMemory& memory_;
  const GoRuntime& runtime_;
};

}  // namespace uscope::engine::inproc
