// Taking uscope out of a process: original bytes back, then, when no thread can come back to our code any
// more, our memory away. What a thread still needs stays mapped, and the journal with it, so that a later
// detach can finish.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/inproc/target/journal.h"
#include "process/ptrace.h"

namespace uscope::engine::inproc {

struct RemoveReport {
  uint64_t sessions = 0;    // journals found
  uint64_t restored = 0;    // patches that were in place
  uint64_t changed = 0;     // places that hold neither our bytes nor the original ones: left alone
  bool is_clean = true;     // nothing of ours is mapped any more
  pid_t thread = 0;         // not clean: one that is still in our code
  uint32_t rounds = 0;      // how often the process was stopped
  uint64_t stopped_ns = 0;  // the longest of these stops
};

// How long threads may take to come to a stop and to leave our code, in all.
inline constexpr std::chrono::milliseconds kRemovalPatience{3000};

struct RemoveOptions {
  // It is tried once at least.
  std::chrono::milliseconds patience = kRemovalPatience;
  // A thread that waits in our code for this to be done, by its thread pointer: when nobody else is in there,
  // that is all. 0: none does.
  uint64_t waits = 0;
};

// What the journals of a process say is there. A process that has ended or executed another program needs
// nothing.
Result<RemoveReport> remove(pid_t pid, const std::vector<JournalContents>& journals,
                            const RemoveOptions& options = {});

// The memory of a session whose patches are all gone already. False: a thread is still in it.
Result<bool> unmap_if_unused(process::SeizedProcess& process, const JournalContents& journal);

// Of a USDT probe.
void count_semaphore(process::RemoteMemory& memory, ProcessAddr at, int by);

}  // namespace uscope::engine::inproc
