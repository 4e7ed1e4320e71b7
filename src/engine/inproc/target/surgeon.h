// The work on one target, in the order it happens: map memory, install patches, remove everything. Runs in
// the process that calls it, and must not be killed half-way: uscope calls it from a Guardian (guardian.h),
// tests may call it directly.
#pragma once

#include <sys/types.h>

#include <vector>

#include "engine/inproc/target/area.h"
#include "engine/inproc/target/ended_threads.h"
#include "engine/inproc/target/install.h"
#include "engine/inproc/target/remove.h"
#include "engine/inproc/target/witness.h"

namespace uscope::engine::inproc {

// What the process that does the work calls itself, so that others know it.
inline constexpr const char* guardian_name = "uscope-guard";

class Surgeon {
 public:
  explicit Surgeon(pid_t pid) : pid_(pid) {}

  // What is left of a uscope that was killed is taken out first. A uscope that is at work there is an Error.
  struct Mapped {
    Fd memory;
    std::vector<Piece> pieces;
    uint64_t stopped_ns = 0;
  };
  Result<Mapped> map(const AreaRequest& request, const Fd& shared = Fd());
  // The process has executed another program: what was brought there is gone.
  void start_over();
  // The memory comes from map(); patches are sorted by address and do not overlap each other or earlier ones.
  // `semaphores` of USDT probes are counted up, until removal counts them down.
  Result<InstallReport> install(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes = {},
                                std::span<const ProcessAddr> semaphores = {});
  // What lies there has been unmapped by the target: its patches are nobody's any more.
  Status forget(std::span<const AddressSpan> spans);
  // As target/ended_threads.h's, of the process or of one that it has forked.
  Result<EndedThreads> take_from_ended(const EndedThreadsRequest& request) const;
  // Idempotent.
  Result<RemoveReport> remove(const RemoveOptions& options = {});
  // Whether it may still be in the process, or in one that it has forked.
  bool may_be_somewhere() const;

 private:
  Status try_again(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes,
                   InstallReport& report);
  Result<Mapped> map_once(const AreaRequest& request, const Fd& shared);
  bool another_is_at_work() const;

  struct Session {
    Journal journal;
    JournalContents contents;
    bool has_data = false;    // which is in use whatever becomes of its patches
    bool is_retired = false;  // all its patches are gone; its memory goes when the process is next stopped
  };
  void unmap_retired(process::SeizedProcess& process);
  pid_t pid_;
  std::vector<Session> sessions_;
  std::vector<Witness> witnesses_;
  std::vector<AddressSpan> earlier_code_;  // which children may still have
};

// Takes out what uscopes that no longer run have left in a process. An Error names one that still does.
Result<RemoveReport> remove_leftovers(pid_t pid);

}  // namespace uscope::engine::inproc
