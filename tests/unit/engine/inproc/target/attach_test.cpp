#include <sys/stat.h>

#include "busy_child.h"
#include "engine/inproc/target/guardian.h"
#include "engine/inproc/target/patched_files.h"

namespace uscope::engine::inproc {
namespace {

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
  for (int cycle = 0; cycle < 15; ++cycle) {
    Surgeon surgeon(child.pid());
    Attached attached(child.pid(), surgeon);
    attached.attach();
    const uint64_t rounds = tally->rounds;
    while (tally->rounds < rounds + 20) std::this_thread::yield();
    for (int code = 0; code < 5; ++code) EXPECT_GT(attached.count(code), 0u) << code;
    attached.detach();
  }
  ASSERT_TRUE(memory->read(text, text_after));
  EXPECT_EQ(text_before, text_after);
  EXPECT_EQ(maps_of(child.pid()), maps_before);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
  EXPECT_GT(tally->signals, 0u);
}

// `rep stosb` is the second instruction of the function: whoever is in it stands in bytes that are patched.
TEST(InprocTarget, MovesAThreadThatStandsInTheWindow) {
  Tally* tally = make_tally();
  Child child([&] {
    std::vector<char> memory(size_t(64) << 20);
    while (!tally->stop) {
      if (sample_fill(memory.data(), 0, long(memory.size())) != long(memory.size())) ++tally->wrong;
      ++tally->rounds;
    }
    return tally->wrong == 0 ? 0 : 1;
  });
  while (tally->rounds == 0) std::this_thread::yield();
  uint32_t moved = 0;
  for (int cycle = 0; cycle < 8; ++cycle) {
    Surgeon surgeon(child.pid());
    Attached attached(child.pid(), surgeon);
    attached.add_site({address_of(&sample_fill), 5, 0});
    attached.attach();
    moved += attached.last_install.moved_threads;
    attached.detach();
  }
  EXPECT_GT(moved, 4u);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

// The same, with the place kept in a signal frame: the thread is in a handler that interrupted the window.
TEST(InprocTarget, MovesWhatASignalHandlerWillReturnTo) {
  Tally* tally = make_tally();
  Child child([&] {
    signal_tally = tally;
    struct sigaction action {};
    action.sa_handler = [](int) {
      ++signal_tally->signals;
      while (signal_tally->signals % 2 == 1 && !signal_tally->stop) ::usleep(100);
    };
    ::sigaction(SIGUSR1, &action, nullptr);
    std::vector<char> memory(size_t(64) << 20);
    while (!tally->stop) {
      if (sample_fill(memory.data(), 0, long(memory.size())) != long(memory.size())) ++tally->wrong;
      ++tally->rounds;
    }
    return tally->wrong == 0 ? 0 : 1;
  });
  while (tally->rounds == 0) std::this_thread::yield();
  uint32_t moved = 0;
  for (int cycle = 0; cycle < 8; ++cycle) {
    ::kill(child.pid(), SIGUSR1);
    while (tally->signals % 2 == 0) std::this_thread::yield();
    Surgeon surgeon(child.pid());
    Attached attached(child.pid(), surgeon);
    attached.add_site({address_of(&sample_fill), 5, 0});
    attached.attach();
    moved += attached.last_install.moved_frames;
    ++tally->signals;  // the handler returns, into the copy
    attached.detach();
    const uint64_t rounds = tally->rounds;
    while (tally->rounds < rounds + 1) std::this_thread::yield();
  }
  EXPECT_GT(moved, 4u);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

// The exits that are probed on the ways to them, and where a function runs on into the next: each call passes
// one probe, once, while another thread calls and signals come.
TEST(InprocTarget, EveryCallPassesOneExit) {
  Tally* tally = make_tally();
  Child child([&] { return run_threads(*tally, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int cycle = 0; cycle < 15; ++cycle) {
    Surgeon surgeon(child.pid());
    Attached attached(child.pid(), surgeon);
    attached.add_site({address_of(&sample_lone_return), 5, 0});
    attached.add_site({address_of(sample_lone_return_at), 6, 0});
    attached.add_site({address_of(sample_lone_return_at) + 4, 7, 0});
    attached.add_site({address_of(&sample_runs_on), 8, 0});
    attached.add_site({address_of(sample_runs_on_filler), 9, 0});
    attached.add_site({address_of(&sample_next), 10, 0});
    attached.attach();
    const uint64_t rounds = tally->rounds;
    while (tally->rounds < rounds + 20) std::this_thread::yield();
    attached.detach();
    // Calls that were under way when the patches came and went: of two threads and their handlers, at both
    // ends, and counted twice in the last.
    auto near = [](uint64_t a, uint64_t b) { return (a > b ? a - b : b - a) <= 16; };
    EXPECT_GT(attached.count(5), 1000u);
    EXPECT_PRED2(near, attached.count(5), attached.count(6) + attached.count(7));
    EXPECT_PRED2(near, attached.count(8), attached.count(9));
    EXPECT_PRED2(near, attached.count(10), 2 * attached.count(9));
  }
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

// As the kernel does for another tracer: a breakpoint on the first byte of a jump, or the file's byte put
// back there when that tracer has gone. The samples are not called meanwhile.
TEST(InprocTarget, TakesOutJumpsThatABreakpointWasSetOn) {
  Tally* tally = make_tally();
  Child child([&] {
    while (!tally->stop) ::usleep(1000);
    check_samples(*tally);
    return tally->wrong == 0 ? 0 : 1;
  });
  auto memory = process::RemoteMemory::open(child.pid());
  ASSERT_TRUE(memory);
  std::vector<uint8_t> text_before(4096), text_after(4096);
  const ProcessAddr text{uint64_t(&sample_twice)};
  ASSERT_TRUE(memory->read(text, text_before));
  Surgeon surgeon(child.pid());
  Attached attached(child.pid(), surgeon);
  attached.attach();
  ASSERT_GE(attached.patches().size(), 2u);
  const Patch &first = attached.patches().front(), &last = attached.patches().back();
  ASSERT_TRUE(memory->write(first.address, Bytes(&breakpoint, 1)));
  ASSERT_TRUE(memory->write(last.address, last.original_bytes().first(1)));
  attached.detach();
  EXPECT_EQ(attached.last_remove.changed, 0u);
  ASSERT_TRUE(memory->read(text, text_after));
  EXPECT_EQ(text_after[first.address - text], breakpoint);
  ASSERT_TRUE(memory->write(first.address, first.original_bytes().first(1)));
  ASSERT_TRUE(memory->read(text, text_after));
  EXPECT_EQ(text_before, text_after);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

// For who would set breakpoints in the same code.
TEST(InprocTarget, PatchesAreSeenAsPlacesInFiles) {
  Tally* tally = make_tally();
  Child child([&] { return run_threads(*tally, 1); });
  EXPECT_TRUE(find_patched_files(child.pid()).empty());
  Surgeon surgeon(child.pid());
  Attached attached(child.pid(), surgeon);
  attached.attach();
  const std::vector<PatchedFile> files = find_patched_files(child.pid());
  struct stat own {};
  ASSERT_EQ(::stat("/proc/self/exe", &own), 0);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].pid, child.pid());
  EXPECT_EQ(files[0].device, own.st_dev);
  EXPECT_EQ(files[0].inode, own.st_ino);
  EXPECT_EQ(files[0].places.size(), attached.patches().size());
  auto maps = process::Maps::of(child.pid());
  ASSERT_TRUE(maps);
  for (const Patch& patch : attached.patches()) {
    const FileOffset at = maps->find(patch.address)->file_offset(patch.address);
    EXPECT_TRUE(files[0].covers(at));
    EXPECT_TRUE(files[0].covers(at + (patch.size - 1)));
    // Filler is no code.
    EXPECT_TRUE(patch.moved == 0 || files[0].covers(at + (patch.moved - 1)));
  }
  const ProcessAddr first = attached.patches().front().address;
  EXPECT_FALSE(files[0].covers(maps->find(first)->file_offset({first.value - 1})));
  attached.detach();
  EXPECT_TRUE(find_patched_files(child.pid()).empty());
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

// A uscope that is killed while its probes are in place, or in the middle of putting them there.
TEST(InprocTarget, TargetOutlivesAKilledUscope) {
  Tally* tally = make_tally();
  Child child([&] { return run_threads(*tally, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::string maps_before = maps_of(child.pid());
  auto memory = process::RemoteMemory::open(child.pid());
  ASSERT_TRUE(memory);
  std::vector<uint8_t> text_before(4096), text_after(4096);
  ASSERT_TRUE(memory->read({uint64_t(&sample_twice)}, text_before));
  for (int cycle = 0; cycle < 12; ++cycle) {
    const pid_t uscope = ::fork();
    if (uscope == 0) {
      auto guardian = Guardian::start(child.pid());
      if (!guardian) ::_exit(1);
      for (;;) {
        Attached attached(child.pid(), *guardian);
        attached.attach();
        attached.detach();
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200 + cycle * 331));
    ::kill(uscope, SIGKILL);
    ::waitpid(uscope, nullptr, 0);
    const uint64_t rounds = tally->rounds;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    // A guardian that has just begun may still be about to map something, and then to take it away.
    int times_clean = 0;
    while ((times_clean < 3 || tally->rounds < rounds + 2) && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      times_clean = maps_of(child.pid()) == maps_before ? times_clean + 1 : 0;
    }
    ASSERT_GE(times_clean, 3) << maps_of(child.pid());
  }
  ASSERT_TRUE(memory->read({uint64_t(&sample_twice)}, text_after));
  EXPECT_EQ(text_before, text_after);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

// Should the guardian be killed too, the next attach finds what was left and takes it out first.
TEST(InprocTarget, LeftoversAreFoundAndTakenOut) {
  Tally* tally = make_tally();
  Child child([&] { return run_threads(*tally, 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::string maps_before = maps_of(child.pid());
  Child uscope([] { return process::sleep_forever(); },
               [&] {
                 Surgeon surgeon(child.pid());
                 Attached attached(child.pid(), surgeon);
                 attached.attach();
               });
  auto while_traced = remove_leftovers(child.pid());
  ASSERT_FALSE(while_traced);
  EXPECT_EQ(why(while_traced.error()),
            fmt::format("process {} is being traced by another uscope (pid {}); one at a time can use the "
                        "in-process engine; try --engine kernel",
                        child.pid(), uscope.pid()));
  ::kill(uscope.pid(), SIGKILL);
  uscope.wait();
  EXPECT_NE(maps_of(child.pid()), maps_before);
  auto report = remove_leftovers(child.pid());
  ASSERT_TRUE(report) << why(report.error());
  EXPECT_GE(report->restored, 5u);
  EXPECT_TRUE(report->is_clean);
  EXPECT_EQ(maps_of(child.pid()), maps_before);
  tally->stop = 1;
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace uscope::engine::inproc
