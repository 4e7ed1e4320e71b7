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
namespace {

using process::Child;

// What the target tells: shared with the test.
struct Tally {
  std::atomic<uint64_t> rounds, wrong, signals, stop;
};

Tally* make_tally() {
  return static_cast<Tally*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

void check_samples(Tally& tally) {
  for (long i = 1; i < 200; ++i) {
    const bool right = sample_twice(i) == 2 * i && sample_tiny(i) == i && sample_loop(i) == i * (i + 1) / 2 &&
                       sample_pushes(i) == 3 * i && sample_branchy(-i) == i && sample_branchy(i) == i;
    if (!right) ++tally.wrong;
  }
  ++tally.rounds;
}

Tally* signal_tally = nullptr;

// Threads that call, one that is interrupted by signals all the time, one that sleeps.
int run_threads(Tally& tally, int callers) {
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

std::string maps_of(pid_t pid) { return read_text_file(fmt::format("/proc/{}/maps", pid)).value_or(""); }
std::string why(const Error& error) { return error.message(); }

std::vector<SiteRequest> sample_sites() {
  return {{address_of(&sample_twice), 0, 0},
          {address_of(&sample_tiny), 1, 0},
          {address_of(&sample_loop), 2, 0},
          {address_of(&sample_pushes), 3, 0},
          {address_of(&sample_branchy), 4, 0}};
}

// Everything that an engine does between Enter and a live probe, with counting stubs.
class Attached {
 public:
  explicit Attached(pid_t pid) : pid_(pid), surgeon_(pid) {}

  void attach() {
    plan_ = plan_image(facts_, sites_);
    ASSERT_TRUE(plan_.refused.empty()) << plan_.refused[0].reason;
    AreaRequest request;
    const AddressSpan text{{uint64_t(&sample_twice)}, 4096};
    request.pieces = {{PieceRequest::Use::code, 65536, text}, {PieceRequest::Use::shared_data, 4096, text}};
    request.most_patches = 100;
    auto mapped = surgeon_.map(request);
    ASSERT_TRUE(mapped) << why(mapped.error());
    CountingEmitter emitter(mapped->pieces[1].where.start);
    StubArea area{mapped->pieces[0].where.start, 65536};
    auto memory = process::RemoteMemory::open(pid_);
    ASSERT_TRUE(memory);
    BuiltPatches built = build_patches(plan_, sites_, 0, *memory, emitter, area);
    ASSERT_TRUE(built.refused.empty()) << built.refused[0].reason;
    ASSERT_EQ(::pwrite(mapped->memory.get(), area.bytes.data(), area.bytes.size(),
                       off_t(mapped->pieces[0].memfd_offset)),
              ssize_t(area.bytes.size()));
    patches_ = built.patches;
    memory_ = std::move(mapped->memory);
    counters_at_ = mapped->pieces[1].memfd_offset;
    auto report = surgeon_.install(patches_);
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
    auto report = surgeon_.remove();
    ASSERT_TRUE(report) << why(report.error());
    EXPECT_TRUE(report->is_clean);
    EXPECT_EQ(report->restored, patches_.size());
    last_remove = *report;
  }

  InstallReport last_install;
  RemoveReport last_remove;

 private:
  pid_t pid_;
  Surgeon surgeon_;
  SampleFacts facts_;
  std::vector<SiteRequest> sites_ = sample_sites();
  ImagePlan plan_;
  std::vector<Patch> patches_;
  Fd memory_;
  uint64_t counters_at_ = 0;
};

TEST(InprocTarget, PatchesBusyThreadsAndLeavesNoTrace) {
  Tally* tally = make_tally();
  Child child([&] { return run_threads(*tally, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto memory = process::RemoteMemory::open(child.pid());
  ASSERT_TRUE(memory);
  std::vector<uint8_t> text_before(4096), text_after(4096);
  const ProcessAddr text{uint64_t(&sample_twice)};
  ASSERT_TRUE(memory->read(text, text_before));
  const std::string maps_before = maps_of(child.pid());
  uint32_t moved = 0, frames = 0;
  for (int cycle = 0; cycle < 100; ++cycle) {
    Attached attached(child.pid());
    attached.attach();
    const uint64_t rounds = tally->rounds;
    while (tally->rounds < rounds + 20) std::this_thread::yield();
    for (int code = 0; code < 5; ++code) EXPECT_GT(attached.count(code), 0u) << code;
    moved += attached.last_install.moved_threads;
    frames += attached.last_install.moved_frames;
    attached.detach();
  }
  EXPECT_GT(moved, 0u);
  RecordProperty("moved_frames", int(frames));
  ASSERT_TRUE(memory->read(text, text_after));
  EXPECT_EQ(text_before, text_after);
  EXPECT_EQ(maps_of(child.pid()), maps_before);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
  EXPECT_GT(tally->signals, 0u);
}

}  // namespace
}  // namespace uscope::engine::inproc
