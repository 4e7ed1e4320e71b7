// The signals that a running script listens to: those that end it in good order, and the one that its
// self:signal probes wait for. Blocked while this lives and read here, where nothing is half done. One
// thread, and one of these at a time.
#pragma once

#include <signal.h>

#include "base/fd.h"

namespace uscope::session {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Readable when something has come.
  const Fd& source() const { return fd_; }

  struct Arrived {
    bool wants_end = false;
    unsigned user_signals = 0;  // SIGUSR1
  };
  Arrived take();

 private:
  sigset_t set_, before_;
  Fd fd_;
};

}  // namespace uscope::session
