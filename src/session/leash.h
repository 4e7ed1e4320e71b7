// Ends a process that uscope holds, should uscope die before it lets it go: what is stopped has nobody else
// to continue it. A process of its own, since who is killed has no time for anything; it ends with this
// object.
#pragma once

#include <sys/types.h>

#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace uscope::session {

class Leash {
 public:
  // `process`: its pidfd, where the kernel has such.
  static Result<Leash> put_on(pid_t pid, const Fd& process);
  Leash(Leash&&) noexcept;
  Leash& operator=(Leash&&) = delete;
  ~Leash();  // lets it go

 private:
  Leash(pid_t watcher, Fd line) : watcher_(watcher), line_(std::move(line)) {}

  pid_t watcher_;
  Fd line_;  // a byte lets it go; that it closes without one means that we are dead
};

}  // namespace uscope::session
