// A program that does what makes tracing hard, and checks its own results all the time: hot threads, signals
// (on their own stack too), exceptions, longjmp, forks, threads that come and go, blocking calls, recursion,
// a switch, allocation. Prints READY, runs until its standard input closes; ends with 0 if all was right.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static std::atomic<bool> stop;
static const bool is_hot = std::getenv("TORTURE_HOT") != nullptr;
static std::atomic<unsigned long> wrong, rounds, signals_taken;

static void check(bool right, const char* what) {
  if (right) return;
  if (wrong++ == 0) std::fprintf(stderr, "wrong: %s\n", what);
}

extern "C" {
NOINLINE long plain(long a, long b) { return a * 3 + b; }
NOINLINE long tiny(long a) { return a; }
NOINLINE double floating(double a, double b) { return a * b + 1; }
NOINLINE long thrower(long a) {
  if (a % 4 == 3) throw std::runtime_error("three");
  return a * 2;
}
NOINLINE long passes_through(long a) {
  struct Counts {
    long& n;
    ~Counts() { ++n; }
  };
  static thread_local long n = 0;
  Counts counts{n};
  return thrower(a) + 1;
}
NOINLINE long catches(long a) {
  try {
    return passes_through(a);
  } catch (const std::exception&) {
    return -a;
  }
}
NOINLINE void jumps_out(std::jmp_buf* where, long a) {
  if (a & 1) std::longjmp(*where, int(a));
}
NOINLINE long factorial(long n) {
  if (n < 2) return 1;
  long rest = factorial(n - 1);
  asm volatile("");
  return rest * n;
}
NOINLINE long by_switch(long a) {
  switch (a % 9) {
    case 0: return a + 11;
    case 1: return a ^ 5;
    case 2: return tiny(a) * 2;
    case 3: return a - 7;
    case 4: return -a;
    case 5: return a * a;
    case 6: return plain(a, 1);
    case 7: return a | 64;
    default: return 1;
  }
}
NOINLINE long tail(long a) { return plain(a, a + 1); }
NOINLINE long sums(const long* values, long count) {
  long sum = 0;
  for (long i = 0; i < count; ++i) sum += values[i];
  return sum;
}
NOINLINE long fork_child_work(long a) { return plain(a, 2) + tiny(a); }
}

static void hot() {
  long values[16];
  for (int i = 0; i < 16; ++i) values[i] = i;
  while (!stop) {
    for (long a = 1; a < 300; ++a) {
      check(plain(a, 4) == a * 3 + 4, "plain");
      check(tiny(a) == a, "tiny");
      check(floating(double(a), 2) == double(a) * 2 + 1, "floating");
      check(tail(a) == a * 3 + a + 1, "tail");
      check(sums(values, 16) == 120, "sums");
      check(by_switch(9 * a) == 9 * a + 11 && by_switch(9 * a + 4) == -(9 * a + 4), "by_switch");
    }
    check(factorial(15) == 1307674368000, "factorial");
    ++rounds;
    // Half a core is enough to be found anywhere in this code; TORTURE_HOT leaves it all to us.
    if (!is_hot) usleep(200);
  }
}

static NOINLINE long jumped_with(long a) {
  std::jmp_buf here;
  if (int back = setjmp(here)) return back;
  jumps_out(&here, a);
  return 0;
}

static void exceptions() {
  while (!stop) {
    for (long a = 0; a < 60; ++a) check(catches(a) == (a % 4 == 3 ? -a : a * 2 + 1), "catches");
    for (long a = 0; a < 60; ++a) check(jumped_with(a) == ((a & 1) ? a : 0), "jumps_out");
    if (!is_hot) usleep(300);
  }
}

static void allocates() {
  while (!stop) {
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 200; ++i) map["key" + std::to_string(i % 37)].push_back(i);
    long sum = 0;
    for (auto& [key, values] : map)
      for (int value : values) sum += value;
    check(sum == 199 * 200 / 2 && map.size() == 37, "map");
    if (!is_hot) usleep(300);
  }
}

static void forks() {
  while (!stop) {
    pid_t child = fork();
    if (child == 0) {
      long sum = 0;
      for (long a = 0; a < 2000; ++a) sum += fork_child_work(a);
      _exit(sum == 1999 * 2000 / 2 * 4 + 4000 ? 0 : 1);
    }
    int status = -1;
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork");
    usleep(3000);
  }
}

static void comes_and_goes() {
  while (!stop) {
    std::vector<std::thread> threads;
    std::atomic<long> sum{0};
    for (long i = 0; i < 6; ++i) threads.emplace_back([&, i] { sum += plain(i, i); });
    for (auto& thread : threads) thread.join();
    check(sum == 15 * 4, "threads");
    usleep(500);
  }
}

static void sleeps() {
  int ends[2];
  if (pipe(ends) != 0) return;
  while (!stop) {
    pollfd wait{ends[0], POLLIN, 0};
    int result = poll(&wait, 1, 7);
    check(result == 0 || (result < 0 && errno == EINTR), "poll");
  }
}

static void on_signal(int) {
  signals_taken++;
  // Work in the handler as well: the same functions, interrupted by themselves.
  check(plain(5, 6) == 21 && factorial(6) == 720, "in a handler");
}

int main() {
  std::vector<char> other_stack(256 << 10);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_flags |= SA_ONSTACK;
  sigaction(SIGPROF, &action, nullptr);
  itimerval often{{0, 700}, {0, 700}};
  setitimer(ITIMER_REAL, &often, nullptr);
  setitimer(ITIMER_PROF, &often, nullptr);
  std::vector<std::thread> threads;
  for (auto work : {hot, hot, exceptions, allocates, forks, comes_and_goes, sleeps})
    threads.emplace_back([work] {
      std::vector<char> stack(64 << 10);
      stack_t alternative{};
      alternative.ss_sp = stack.data();
      alternative.ss_size = stack.size();
      sigaltstack(&alternative, nullptr);
      work();
      alternative.ss_flags = SS_DISABLE;
      sigaltstack(&alternative, nullptr);
    });
  std::puts("READY");
  std::fflush(stdout);
  for (char byte; ;) {
    ssize_t got = read(0, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  std::printf("rounds %lu, signals %lu, wrong %lu\n", rounds.load(), signals_taken.load(), wrong.load());
  return wrong == 0 && rounds > 0 ? 0 : 1;
}
