#include "process/ptrace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/fd.h"
#include "child.h"
#include "process/info.h"
#include "process/remote_call.h"

namespace uscope::process {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Numbers that a child and the test both see.
struct Shared {
  std::atomic<uint64_t> beats{0};
  std::atomic<uint64_t> signals{0};
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};

  static Shared* make() {
    void* page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (page) Shared;
  }
};
Shared* g_shared;

class Seized : public testing::Test {
 protected:
  void SetUp() override { g_shared = Shared::make(); }
  void TearDown() override { ::munmap(g_shared, sizeof(Shared)); }
};

std::string message(const Status& status) { return status ? "fine" : status.error().message(); }

// Registers with known values go through a loop; should any of them be touched, `wrong` counts it.
void* spin(void*) {
  while (!g_shared->stop) {
    uint64_t a = 0x1111111111111111, b = 0x2222222222222222;
    asm volatile("mov $200, %%ecx\n1: dec %%ecx\n jnz 1b" : "+r"(a), "+r"(b) : : "rcx", "cc");
    if (a != 0x1111111111111111 || b != 0x2222222222222222) ++g_shared->wrong;
    ++g_shared->beats;
  }
  return nullptr;
}

void start_threads(int count, void* (*body)(void*)) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    pthread_create(&thread, nullptr, body, nullptr);
    pthread_detach(thread);
  }
}

Status call_getpid(SeizedProcess& process) {
  TRY(RemoteCaller caller, RemoteCaller::begin(process));
  TRY(int64_t result, caller.call(SYS_getpid, {}));
  if (result != process.pid()) return fail(fmt::format("getpid gave {}", result));
  return caller.finish();
}

// While every thread is stopped, the heartbeat stands still.
Status expect_standstill(SeizedProcess&) {
  uint64_t before = g_shared->beats;
  std::this_thread::sleep_for(1ms);
  if (g_shared->beats != before) return fail("something in the process still ran");
  return {};
}

void expect_alive() {
  uint64_t before = g_shared->beats;
  for (auto begun = Clock::now(); g_shared->beats == before;)
    ASSERT_LT(Clock::now() - begun, 5s) << "it stands still";
}

TEST_F(Seized, EveryThreadStopsAndRunsOn) {
  Child child([] {
    start_threads(3, spin);
    return spin(nullptr), 0;
  });
  for (int round = 0; round < 50; ++round) {
    Status status = with_seized(child.pid(), {}, expect_standstill);
    ASSERT_EQ(message(status), "fine");
    expect_alive();
  }
  EXPECT_EQ(g_shared->wrong, 0u);
  EXPECT_EQ(read_process(child.pid())->status.tracer, 0);
}

TEST_F(Seized, NothingOfUsStaysAfterAnError) {
  Child child([] { return spin(nullptr), 0; });
  EXPECT_EQ(message(with_seized(child.pid(), {}, [](SeizedProcess&) -> Status { return fail("no"); })), "no");
  EXPECT_EQ(read_process(child.pid())->status.tracer, 0);
  expect_alive();
}

void* short_life(void*) {
  ++g_shared->beats;
  return nullptr;
}
void* churn(void*) {
  while (!g_shared->stop) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, short_life, nullptr) == 0) pthread_join(thread, nullptr);
  }
  return nullptr;
}

TEST_F(Seized, ThreadsThatComeAndGo) {
  Child child([] {
    start_threads(3, churn);
    return churn(nullptr), 0;
  });
  size_t most = 0;
  for (int round = 0; round < 150; ++round) {
    Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
      most = std::max(most, process.threads().size());
      TRY_STATUS(expect_standstill(process));
      return call_getpid(process);
    });
    ASSERT_EQ(message(status), "fine") << round;
    expect_alive();
  }
  EXPECT_GT(most, 4u);
  g_shared->stop = true;
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Seized, ManyThreads) {
  Child child([] {
    start_threads(300, [](void*) -> void* { return sleep_forever(), nullptr; });
    return spin(nullptr), 0;
  });
  while (read_process(child.pid())->tids.size() < 301) std::this_thread::sleep_for(1ms);
  size_t count = 0;
  Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
    count = process.threads().size();
    return expect_standstill(process);
  });
  EXPECT_EQ(message(status), "fine");
  EXPECT_EQ(count, 301u);
  expect_alive();
}

void count_real_time_signals() {
  struct sigaction action {};
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    // Real-time signals queue: each must come once, and in order.
    if (uint64_t(info->si_value.sival_int) != g_shared->signals++) ++g_shared->wrong;
  };
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGRTMIN, &action, nullptr);
}

TEST_F(Seized, SignalsSentDuringTheStopComeOnceEach) {
  Child child([] { return spin(nullptr), 0; }, count_real_time_signals);
  int sent = 0;
  auto send = [&] { ::sigqueue(child.pid(), SIGRTMIN, {.sival_int = sent++}); };
  for (int round = 0; round < 100; ++round) {
    Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
      send();
      TRY_STATUS(expect_standstill(process));
      TRY(RemoteCaller caller, RemoteCaller::begin(process));
      for (int i = 0; i < 3; ++i) {
        send();
        TRY([[maybe_unused]] int64_t result, caller.call(SYS_getpid, {}));
      }
      return caller.finish();
    });
    ASSERT_EQ(message(status), "fine");
  }
  for (auto begun = Clock::now(); g_shared->signals < uint64_t(sent) && Clock::now() - begun < 5s;)
    ::usleep(1000);
  EXPECT_EQ(g_shared->signals, uint64_t(sent));
  EXPECT_EQ(g_shared->wrong, 0u);
}

// A storm of signals makes threads stop where they are about to take one, which is the other kind of stop.
TEST_F(Seized, SignalsSentAllTheTimeComeOnceEach) {
  Child child([] { return spin(nullptr), 0; }, count_real_time_signals);
  std::atomic<bool> enough{false};
  std::atomic<int> sent{0};
  std::thread sender([&] {
    while (!enough) {
      if (::sigqueue(child.pid(), SIGRTMIN, {.sival_int = sent}) == 0) ++sent;
      for (int i = 0; i < 2000; ++i) asm volatile("");
    }
  });
  int about_to_take_one = 0;
  for (int round = 0; round < 400; ++round) {
    Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
      about_to_take_one += process.threads()[0].held_signal != 0;
      if (round % 2) return {};
      return call_getpid(process);
    });
    EXPECT_EQ(message(status), "fine");
  }
  enough = true;
  sender.join();
  for (auto begun = Clock::now(); g_shared->signals < uint64_t(sent) && Clock::now() - begun < 5s;)
    ::usleep(1000);
  EXPECT_EQ(g_shared->signals, uint64_t(sent));
  EXPECT_EQ(g_shared->wrong, 0u);
  EXPECT_GT(about_to_take_one, 0) << "the storm was too weak to test what it should";
}

char state_of(pid_t pid) { return read_process(pid)->status.state; }

TEST_F(Seized, AStoppedJobStaysStopped) {
  Child child([] { return spin(nullptr), 0; });
  ::kill(child.pid(), SIGSTOP);
  while (state_of(child.pid()) != 'T') ::usleep(100);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(message(with_seized(child.pid(), {}, call_getpid)), "fine");
    for (auto begun = Clock::now(); state_of(child.pid()) != 'T' && Clock::now() - begun < 2s;) ::usleep(100);
    ASSERT_EQ(state_of(child.pid()), 'T');
  }
  uint64_t before = g_shared->beats;
  ::usleep(5000);
  EXPECT_EQ(g_shared->beats, before);
  ::kill(child.pid(), SIGCONT);
  expect_alive();
}

TEST_F(Seized, AStopSignalSentMeanwhileTakesItsCourse) {
  Child child([] { return spin(nullptr), 0; });
  Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
    TRY(RemoteCaller caller, RemoteCaller::begin(process));
    ::kill(child.pid(), SIGSTOP);
    TRY([[maybe_unused]] int64_t result, caller.call(SYS_getpid, {}));
    return caller.finish();
  });
  ASSERT_EQ(message(status), "fine");
  for (auto begun = Clock::now(); state_of(child.pid()) != 'T' && Clock::now() - begun < 2s;) ::usleep(100);
  EXPECT_EQ(state_of(child.pid()), 'T');
  ::kill(child.pid(), SIGCONT);
  expect_alive();
}

TEST_F(Seized, AProcessWhoseFirstThreadHasExited) {
  Child child([] {
    start_threads(2, spin);
    ::syscall(SYS_exit, 0);
    return 0;
  });
  while (!read_process(child.pid())->leader_is_dead) ::usleep(100);
  for (int round = 0; round < 20; ++round) {
    Status status = with_seized(child.pid(), {}, [](SeizedProcess& process) -> Status {
      TRY_STATUS(expect_standstill(process));
      return call_getpid(process);
    });
    ASSERT_EQ(message(status), "fine");
    expect_alive();
  }
}

TEST_F(Seized, AVforkParentIsWaitedFor) {
  Child child([] {
    for (;;) {
      pid_t inner = ::vfork();
      if (inner == 0) {
        ::usleep(20000);
        ::_exit(0);
      }
      ::waitpid(inner, nullptr, 0);
      ++g_shared->beats;
      ::usleep(1000);
    }
    return 0;
  });
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(message(with_seized(child.pid(), {.hold = 10ms}, call_getpid)), "fine");
    expect_alive();
  }
}

TEST_F(Seized, AVforkParentThatWaitsTooLongIsNamedAndLeftAlone) {
  Child child([] {
    pid_t inner = ::vfork();
    if (inner == 0) {
      ::usleep(400000);
      ::_exit(0);
    }
    ::waitpid(inner, nullptr, 0);
    return spin(nullptr), 0;
  });
  ::usleep(10000);
  Status status = with_seized(child.pid(), {.hold = 10ms, .patience = 50ms}, call_getpid);
  EXPECT_NE(message(status).find(fmt::format("thread {0} of process {0} cannot be stopped", child.pid())),
            std::string::npos)
      << message(status);
  expect_alive();  // later, when the vfork child is done: it must not find itself stopped
}

TEST_F(Seized, AProcessThatDiesMeanwhileIsAnErrorNotAHang) {
  Child child([] { return spin(nullptr), 0; });
  Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
    ::kill(child.pid(), SIGKILL);
    ::usleep(2000);
    return call_getpid(process);
  });
  EXPECT_FALSE(status.has_value());
  EXPECT_EQ(child.wait(), 1000 + SIGKILL);  // its parent still gets to know
}

TEST_F(Seized, ProcessesThatAreNotThereOrTakenAreErrors) {
  EXPECT_EQ(message(with_seized(0x3fffffff, {}, call_getpid)), "no process 1073741823");
  Child child([] { return sleep_forever(); });
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr), 0);
  auto begun = Clock::now();
  Status status = with_seized(child.pid(), {.patience = 200ms}, call_getpid);
  EXPECT_NE(message(status).find("already being traced"), std::string::npos) << message(status);
  EXPECT_LT(Clock::now() - begun, 2s);
}

// A shell that starts programs all the time: fork or vfork, exec, children's signals.
TEST_F(Seized, AShellAtWork) {
  int results[2];
  ASSERT_EQ(::pipe(results), 0);
  Child child([&] {
    ::dup2(results[1], 1);
    ::execl("/bin/sh", "sh", "-c",
            "i=0; while [ $i -lt 300 ]; do i=$((i+1)); /bin/true || exit 9; done; echo done $i", nullptr);
    return 127;
  });
  ::close(results[1]);
  int rounds = 0;
  while (with_seized(child.pid(), {}, call_getpid) && rounds < 2000) ++rounds;
  EXPECT_EQ(child.wait(), 0);
  char text[32] = {};
  EXPECT_GT(::read(results[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "done 300\n");
  EXPECT_GT(rounds, 20);
  ::close(results[0]);
}

}  // namespace
}  // namespace uscope::process
