// Frames that handlers which have returned left on their stack are no frames.
#include "engine/inproc/target/signal_frames.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uscope::engine::inproc {
namespace {

constexpr size_t kHalf = 64 << 10;
uint8_t* memory = nullptr;  // the lower half plays a thread's stack, the upper half is for signals
size_t found_inside = 0;    // by the handler, of itself

size_t frames_from(const void* stack_pointer) {
  auto remote = process::RemoteMemory::open(::getpid());
  auto maps = process::Maps::of(::getpid());
  size_t found = 0;
  SignalFrames(*remote, *maps).visit({uint64_t(stack_pointer)}, [&](ProcessAddr, ProcessAddr) { ++found; });
  return found;
}

// The C library's, as the kernel has it.
const void* restorer_of(int signal) {
  struct {
    const void* handler;
    unsigned long flags;
    const void* restorer;
    uint64_t mask;
  } action{};
  ::syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask);
  return action.restorer;
}

void handler(int) { found_inside = frames_from(__builtin_frame_address(0)); }

TEST(SignalFrames, OnAStackForSignalsCountOnlyWhileTheThreadIsOnIt) {
  memory = static_cast<uint8_t*>(
      ::mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  stack_t stack{memory + kHalf, 0, kHalf}, before{};
  ASSERT_EQ(::sigaltstack(&stack, &before), 0);
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &old), 0);
  ::raise(SIGUSR1);
  EXPECT_GE(found_inside, 1u);
  EXPECT_EQ(frames_from(memory + kHalf / 2), 0u);
  ::sigaction(SIGUSR1, &old, nullptr);
  ::sigaltstack(&before, nullptr);
  ::munmap(memory, 2 * kHalf);
}

// What an earlier handler left below, in memory that has not been written since, says that the stack goes on
// above the frame of the handler that runs now.
TEST(SignalFrames, BehindOneThatIsLeftOverTheRealOneIsFound) {
  memory = static_cast<uint8_t*>(
      ::mmap(nullptr, kHalf, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &old), 0);
  constexpr size_t kSavedRsp = 168 / 8, kSavedRip = 176 / 8, kSegments = 192 / 8;
  auto make_frame = [&](size_t at, size_t interrupted) {
    auto* words = reinterpret_cast<uint64_t*>(memory + at);
    words[0] = uint64_t(restorer_of(SIGUSR1));
    words[kSavedRsp] = uint64_t(memory + interrupted);
    words[kSavedRip] = at;
    words[kSegments] = 0x002b000000000033;
  };
  make_frame(1024, 8192);
  make_frame(4096, 12288);
  std::vector<uint64_t> seen;
  auto remote = process::RemoteMemory::open(::getpid());
  auto maps = process::Maps::of(::getpid());
  SignalFrames(*remote, *maps).visit({uint64_t(memory + 64)}, [&](ProcessAddr, ProcessAddr saved) {
    seen.push_back(saved.value);
  });
  EXPECT_EQ(seen, (std::vector<uint64_t>{1024, 4096}));
  ::sigaction(SIGUSR1, &old, nullptr);
  ::munmap(memory, kHalf);
}

}  // namespace
}  // namespace uscope::engine::inproc
