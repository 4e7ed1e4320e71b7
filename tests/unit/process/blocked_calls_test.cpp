// Programs that sleep in the kernel are stopped and let go many times, and must see their calls end as if
// nothing had happened: no EINTR, no early timeout, the right result.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <memory>

#include "child.h"
#include "process/info.h"
#include "process/ptrace.h"
#include "process/remote_call.h"
#include "process/tracee.h"

namespace uscope::process {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kRounds = 200;
constexpr timespec kSecond = {1, 0};

// 0 when the call gave `expected` and took at least a second.
int check(long result, long expected, int expected_errno, Clock::time_point begun) {
  if (result != expected) return errno == EINTR ? 10 : 11;
  if (result < 0 && errno != expected_errno) return errno == EINTR ? 10 : 12;
  return Clock::now() - begun < 990ms ? 13 : 0;
}

#define TIMED_OUT(expression, expected, error)    \
  [] {                                            \
    auto begun = Clock::now();                    \
    long result = (expression);                   \
    return check(result, expected, error, begun); \
  }

int new_pipe() {
  int ends[2];
  return ::pipe(ends) == 0 ? ends[0] : -1;
}
pollfd* silent_pipe() {
  static pollfd pipe = {new_pipe(), POLLIN, 0};
  return &pipe;
}
int silent_epoll() {
  int epoll = ::epoll_create1(0);
  epoll_event event = {EPOLLIN, {}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, new_pipe(), &event);
  return epoll;
}
int silent_socket(int type, int timeout_option) {
  int ends[2];
  ::socketpair(AF_UNIX, type, 0, ends);
  timeval timeout = {1, 0};
  ::setsockopt(ends[0], SOL_SOCKET, timeout_option, &timeout, sizeof timeout);
  return ends[0];
}
int full_socket() {
  int socket = silent_socket(SOCK_STREAM, SO_SNDTIMEO);
  char block[4096] = {};
  while (::send(socket, block, sizeof block, MSG_DONTWAIT) > 0) {
  }
  return socket;
}
int new_semaphore() { return ::semget(IPC_PRIVATE, 1, 0600); }
sigset_t only(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}
epoll_event g_event;
char g_byte;
int g_futex;
sembuf g_take = {0, -1, 0};

long select_silent_pipe() {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(silent_pipe()->fd, &set);
  timeval timeout = {1, 0};
  return ::select(silent_pipe()->fd + 1, &set, nullptr, nullptr, &timeout);
}
long take_semaphore() {
  int semaphore = new_semaphore();
  long result = ::semtimedop(semaphore, &g_take, 1, &kSecond);
  int error = errno;
  ::semctl(semaphore, 0, IPC_RMID);
  errno = error;
  return result;
}
long wait_for_signal() {
  sigset_t set = only(SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return ::sigtimedwait(&set, nullptr, &kSecond);
}
long epoll_pwait_with_mask() {
  sigset_t set = only(SIGUSR1);
  return ::epoll_pwait(silent_epoll(), &g_event, 1, 1000, &set);
}

const std::map<std::string, int (*)()> kTimedCalls = {
    {"nanosleep", TIMED_OUT(::nanosleep(&kSecond, nullptr), 0, 0)},
    {"clock_nanosleep", TIMED_OUT(::clock_nanosleep(CLOCK_MONOTONIC, 0, &kSecond, nullptr), 0, 0)},
    {"poll", TIMED_OUT(::poll(silent_pipe(), 1, 1000), 0, 0)},
    {"ppoll", TIMED_OUT(::ppoll(silent_pipe(), 1, &kSecond, nullptr), 0, 0)},
    {"select", TIMED_OUT(select_silent_pipe(), 0, 0)},
    {"epoll_wait", TIMED_OUT(::epoll_wait(silent_epoll(), &g_event, 1, 1000), 0, 0)},
    {"epoll_pwait", TIMED_OUT(epoll_pwait_with_mask(), 0, 0)},
    {"epoll_pwait2",
     TIMED_OUT(::syscall(SYS_epoll_pwait2, silent_epoll(), &g_event, 1, &kSecond, nullptr, 0), 0, 0)},
    {"futex", TIMED_OUT(::syscall(SYS_futex, &g_futex, FUTEX_WAIT, 0, &kSecond, nullptr, 0), -1, ETIMEDOUT)},
    {"recv", TIMED_OUT(::recv(silent_socket(SOCK_STREAM, SO_RCVTIMEO), &g_byte, 1, 0), -1, EAGAIN)},
    {"recv of datagrams",
     TIMED_OUT(::recv(silent_socket(SOCK_DGRAM, SO_RCVTIMEO), &g_byte, 1, 0), -1, EAGAIN)},
    {"send", TIMED_OUT(::send(full_socket(), &g_byte, 1, 0), -1, EAGAIN)},
    {"semtimedop", TIMED_OUT(take_semaphore(), -1, EAGAIN)},
    {"sigtimedwait", TIMED_OUT(wait_for_signal(), -1, EAGAIN)},
};

Status seize_once(pid_t pid, bool with_call) {
  return with_seized(pid, {}, [&](SeizedProcess& process) -> Status {
    if (!with_call) return {};
    TRY(RemoteCaller caller, RemoteCaller::begin(process));
    TRY(int64_t result, caller.call(SYS_getpid, {}));
    if (result != pid) return fail("getpid gave " + std::to_string(result));
    return caller.finish();
  });
}

void run_rounds(pid_t pid) {
  for (int round = 0; round < kRounds; ++round) {
    Status status = seize_once(pid, round % 4 == 0);
    ASSERT_TRUE(status.has_value()) << status.error().message();
  }
}

TEST(BlockedCalls, TimeoutsAreKept) {
  std::map<std::string, std::unique_ptr<Child>> children;
  for (auto& [name, call] : kTimedCalls) children[name] = std::make_unique<Child>(call);
  ::usleep(20000);  // let them fall asleep
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [name, child] : children) {
      Status status = seize_once(child->pid(), round % 4 == 0);
      ASSERT_TRUE(status.has_value() || read_process(child->pid())->is_zombie) << status.error().message();
    }
  }
  for (auto& [name, child] : children) EXPECT_EQ(child->wait(), 0) << name << " (10: EINTR, 13: too early)";
}

// Ends a child's wait from outside after the rounds, and expects the call to give that.
void expect_wakes(const std::function<int(int fd)>& wait_on) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Child child([&] { return wait_on(ends[1]); });
  ::usleep(10000);
  run_rounds(child.pid());
  ASSERT_EQ(::write(ends[0], "x", 1), 1);
  EXPECT_EQ(child.wait(), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(BlockedCalls, ReadGetsWhatIsSentAfterwards) {
  expect_wakes([](int fd) {
    char byte = 0;
    return ::read(fd, &byte, 1) == 1 && byte == 'x' ? 0 : 1;
  });
}

TEST(BlockedCalls, RecvWithATimeoutGetsWhatIsSentAfterwards) {
  expect_wakes([](int fd) {
    timeval timeout = {20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    char byte = 0;
    return ::recv(fd, &byte, 1, 0) == 1 && byte == 'x' ? 0 : 1;
  });
}

TEST(BlockedCalls, EpollWaitSeesTheEventAfterwards) {
  expect_wakes([](int fd) {
    int epoll = ::epoll_create1(0);
    epoll_event event = {EPOLLIN, {.fd = fd}};
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    return ::epoll_wait(epoll, &event, 1, -1) == 1 && event.data.fd == fd ? 0 : 1;
  });
}

// The other side of it: where a signal does arrive, EINTR must not be swallowed.
void interrupted_wait_sees_eintr(bool send_while_stopped) {
  Child child(
      [] {
        int result = ::epoll_wait(silent_epoll(), &g_event, 1, 10000);
        return result == -1 && errno == EINTR ? 0 : 1;
      },
      [] {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        ::sigaction(SIGUSR1, &action, nullptr);
      });
  ::usleep(10000);
  Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
    if (send_while_stopped) ::kill(child.pid(), SIGUSR1);
    TRY(RemoteCaller caller, RemoteCaller::begin(process));
    TRY([[maybe_unused]] int64_t own_pid, caller.call(SYS_getpid, {}));
    return caller.finish();
  });
  ASSERT_TRUE(status.has_value()) << status.error().message();
  if (!send_while_stopped) ::kill(child.pid(), SIGUSR1);
  auto begun = Clock::now();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_LT(Clock::now() - begun, 5s);
}

TEST(BlockedCalls, ASignalSentDuringTheStopGivesEintr) { interrupted_wait_sees_eintr(true); }
TEST(BlockedCalls, ASignalSentAfterTheStopGivesEintr) { interrupted_wait_sees_eintr(false); }

TEST(LetCallRestart, ChangesOnlyAnInterruptedRepeatableCall) {
  user_regs_struct sleeping{};
  sleeping.cs = 0x33;
  sleeping.orig_rax = SYS_epoll_wait;
  sleeping.rax = uint64_t(-EINTR);
  auto changed = [&](auto change) {
    user_regs_struct registers = sleeping;
    change(registers);
    return let_call_restart(registers);
  };
  EXPECT_TRUE(changed([](auto&) {}));
  EXPECT_FALSE(changed([](auto& r) { r.rax = 0; }));
  EXPECT_FALSE(changed([](auto& r) { r.orig_rax = ~0ull; }));      // in its own code
  EXPECT_FALSE(changed([](auto& r) { r.orig_rax = SYS_close; }));  // closing again could close another file
  EXPECT_FALSE(changed([](auto& r) { r.cs = 0x23; }));             // 32-bit: other numbers
}

}  // namespace
}  // namespace uscope::process
