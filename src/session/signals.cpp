#include "session/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace uscope::session {

Signals::Signals() {
  ::sigemptyset(&set_);
  ::sigaddset(&set_, SIGINT);
  ::sigaddset(&set_, SIGTERM);
  ::sigaddset(&set_, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &set_, &before_);
  fd_ = Fd(::signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
}

Signals::~Signals() {
  // The script has ended: what came too late must not end uscope as if nobody had listened.
  take();
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Signals::Arrived Signals::take() {
  Arrived arrived;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGUSR1)
      ++arrived.user_signals;
    else
      arrived.wants_end = true;
  }
  return arrived;
}

}  // namespace uscope::session
