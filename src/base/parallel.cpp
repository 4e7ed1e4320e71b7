#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace uscope {
namespace {

constexpr size_t most_threads = 8;

}  // namespace

void for_each_in_parallel(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t threads =
      std::min<size_t>({count, most_threads, std::max(1u, std::thread::hardware_concurrency())});
  std::vector<std::jthread> others;
  try {
    for (size_t i = 1; i < threads; ++i) others.emplace_back(run);
  } catch (const std::system_error&) {
    // No more threads to be had: those that are there do it all.
  }
  run();
}

}  // namespace uscope
