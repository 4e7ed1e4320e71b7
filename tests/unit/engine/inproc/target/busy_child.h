// A child process with busy threads that checks its own results, and everything an engine does to it between
// Enter and a live probe, with stubs that only count.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/fd.h"
#include "counting_emitter.h"
#include "engine/inproc/target/build_patches.h"
#include "engine/inproc/target/surgeon.h"
#include "sample_code.h"
#include "unit/process/child.h"

namespace uscope::engine::inproc {

using process::Child;

// What the target tells: shared with the test.
struct Tally {
  std::atomic<uint64_t> rounds, wrong, signals, stop;
};

inline Tally* make_tally() {
  return static_cast<Tally*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

inline long lone_return_again(long n) {
  if (n > 100) return -n;
  if (n % 2 == 0) return n;
  return n > 50 ? 2 * n + 1 : 3 * n - 6;
}

inline void check_samples(Tally& tally) {
  for (long i = 1; i < 200; ++i) {
    const bool right = sample_twice(i) == 2 * i && sample_tiny(i) == i && sample_loop(i) == i * (i + 1) / 2 &&
                       sample_pushes(i) == 3 * i && sample_branchy(-i) == i && sample_branchy(i) == i &&
                       sample_lone_return(i) == lone_return_again(i) && sample_runs_on(i) == 3 * (i + 5) &&
                       sample_next(i) == 3 * i;
    if (!right) ++tally.wrong;
  }
  ++tally.rounds;
}

inline Tally* signal_tally = nullptr;

// Threads that call, one that is interrupted by signals all the time, one that sleeps.
inline int run_threads(Tally& tally, int callers) {
  signal_tally = &tally;
  struct sigaction action {};
  action.sa_handler = [](int) { ++signal_tally->signals; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  itimerval often{{0, 300}, {0, 300}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&] {
      while (!tally.stop) check_samples(tally);
    });
  threads.emplace_back([&] {
    while (!tally.stop) ::usleep(20000);
  });
  for (std::thread& thread : threads) thread.join();
  return tally.wrong == 0 ? 0 : 1;
}

inline std::string maps_of(pid_t pid) {
  return read_text_file(fmt::format("/proc/{}/maps", pid)).value_or("");
}
inline std::string why(const Error& error) { return error.message(); }

inline std::vector<SiteRequest> sample_sites() {
  return {{address_of(&sample_twice), 0, 0},
          {address_of(&sample_tiny), 1, 0},
          {address_of(&sample_loop), 2, 0},
          {address_of(&sample_pushes), 3, 0},
          {address_of(&sample_branchy), 4, 0}};
}

// Everything that an engine does between Enter and a live probe, with counting stubs.
template <typename Worker>
class Attached {
 public:
  Attached(pid_t pid, Worker& worker) : pid_(pid), worker_(worker) {}

  void attach() {
    plan_ = plan_image(facts_, sites_);
    ASSERT_TRUE(plan_.refused.empty()) << plan_.refused[0].reason;
    AreaRequest request;
    const AddressSpan text{{uint64_t(&sample_twice)}, 4096};
    request.pieces = {{PieceRequest::Use::code, 65536, text}, {PieceRequest::Use::shared_data, 4096, text}};
    request.most_patches = 100;
    auto mapped = worker_.map(request);
    ASSERT_TRUE(mapped) << why(mapped.error());
    CountingEmitter emitter(mapped->pieces[1].where.start);
    StubArea area{mapped->pieces[0].where.start, 65536};
    auto memory = process::RemoteMemory::open(pid_);
    ASSERT_TRUE(memory);
    BuiltPatches built =
        build_patches(plan_, sites_, {0, {{ProcessAddr{0}, ~uint64_t{0}}}}, *memory, emitter, area);
    ASSERT_TRUE(built.refused.empty()) << built.refused[0].reason;
    ASSERT_EQ(::pwrite(mapped->memory.get(), area.bytes.data(), area.bytes.size(),
                       off_t(mapped->pieces[0].memfd_offset)),
              ssize_t(area.bytes.size()));
    patches_ = built.patches;
    memory_ = std::move(mapped->memory);
    counters_at_ = mapped->pieces[1].memfd_offset;
    auto report = worker_.install(patches_);
    ASSERT_TRUE(report) << why(report.error());
    EXPECT_TRUE(report->refused.empty());
    last_install = *report;
  }

  uint64_t count(int code) const {
    uint64_t value = 0;
    EXPECT_EQ(::pread(memory_.get(), &value, 8, off_t(counters_at_) + 8 * code), 8);
    return value;
  }

  void detach() {
    auto report = worker_.remove();
    ASSERT_TRUE(report) << why(report.error());
    EXPECT_TRUE(report->is_clean);
    EXPECT_EQ(report->restored, patches_.size());
    last_remove = *report;
  }

  void add_site(SiteRequest site) { sites_.push_back(site); }
  const std::vector<Patch>& patches() const { return patches_; }

  InstallReport last_install;
  RemoveReport last_remove;

 private:
  pid_t pid_;
  Worker& worker_;
  SampleFacts facts_;
  std::vector<SiteRequest> sites_ = sample_sites();
  ImagePlan plan_;
  std::vector<Patch> patches_;
  Fd memory_;
  uint64_t counters_at_ = 0;
};

}  // namespace uscope::engine::inproc
