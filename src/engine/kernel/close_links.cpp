#include "engine/kernel/close_links.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

namespace uscope::engine::kernel {

void close_all(std::vector<Fd> fds) {
  constexpr size_t kMostThreads = 32;  // they only sleep
  std::atomic<size_t> next = 0;
  auto close_some = [&] {
    for (size_t i = next++; i < fds.size(); i = next++) fds[i].reset();
  };
  // The program's signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < std::min(fds.size(), kMostThreads); i++) threads.emplace_back(close_some);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are, and this one, do the work.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close_some();
}

}  // namespace uscope::engine::kernel
