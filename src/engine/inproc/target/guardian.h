// A process of its own that does the work on the target, so that nothing happens to the target when uscope
// dies in the middle of it: its own session, deaf to the terminal's signals, known to nobody. uscope asks
// over a socket and waits for the answer. When the socket closes, whether uscope has ended or was killed, the
// guardian takes everything out of the target and ends.
//
// Owned by the engine; used from one thread. The destructor waits for the guardian to be done.
#pragma once

#include <sys/types.h>

#include "engine/inproc/target/offspring.h"
#include "engine/inproc/target/surgeon.h"

namespace uscope::engine::inproc {

class Guardian {
 public:
  // Forks. Best called early, while this process is small.
  static Result<Guardian> start(pid_t target);
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&&) = delete;
  ~Guardian();

  // As the Surgeon's.
  Result<Surgeon::Mapped> map(const AreaRequest& request, const Fd& shared = Fd());
  void start_over();
  Result<InstallReport> install(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes = {},
                                std::span<const ProcessAddr> semaphores = {});
  Status forget(const std::vector<AddressSpan>& spans);
  Result<RemoveReport> remove();
  Result<EndedThreads> take_from_ended(const EndedThreadsRequest& request);
  // Out of the target or of a process that it has forked. `waits`: as RemoveOptions has it.
  Result<RemoveReport> take_out(pid_t pid, uint64_t waits);
  // What uscopes that no longer run have left in the target.
  Result<RemoveReport> remove_leftovers();

  // A child that the target has forked: it is taken care of, see Offspring. Does not wait.
  void tell_of_child(pid_t child, Offspring::Probes probes);

  pid_t pid() const { return pid_; }

 private:
  Guardian(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_ = -1;
  Fd socket_;
};

}  // namespace uscope::engine::inproc
