// Functions that measure themselves: each returns how many nanoseconds it took, so that what a tracer measures can be
// compared. They recur, are left by exceptions and longjmp, run on other stacks, and end in jumps to others. Pauses
// are long, so that an exit that is taken for another call's shows.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "driver.h"

namespace {

constexpr int kPause = 60;  // milliseconds
jmp_buf escape;
ucontext_t here, other;

long now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

void pause_for(int milliseconds) {
  const timespec t = {0, milliseconds * 1000000L};
  nanosleep(&t, nullptr);
}

}  // namespace

KEEP long recurses(int depth) {
  const long start = now();
  pause_for(kPause);
  if (depth > 0) recurses(depth - 1);
  return now() - start;
}

KEEP long throws(int i) {
  const long start = now();
  pause_for(1);
  if (i % 2 == 1) throw i;
  return now() - start;
}

KEEP long jumps(int i) {
  const long start = now();
  pause_for(1);
  if (i % 2 == 1) longjmp(escape, 1);
  return now() - start;
}

// Interrupted by a signal whose handler calls it too, on another stack.
KEEP long interrupted(int depth) {
  const long start = now();
  pause_for(kPause);
  if (depth > 0) raise(SIGUSR1);
  return now() - start;
}

// Of two contexts, which take turns in the middle of it.
KEEP long takes_turns(ucontext_t* from, ucontext_t* to) {
  const long start = now();
  pause_for(kPause);
  swapcontext(from, to);
  return now() - start;
}

namespace {
long chain_start;
}
KEEP long ends_chain(int) {
  pause_for(kPause);
  return now() - chain_start;
}
KEEP long chained(int i) {
  chain_start = now();
  pause_for(kPause);
  return ends_chain(i + 1);
}

namespace {

void on_signal(int) { interrupted(0); }

void other_main() {
  takes_turns(&other, &here);
  swapcontext(&other, &here);
}

void take_turns() {
  static char stack[65536];
  getcontext(&other);
  other.uc_stack.ss_sp = stack;
  other.uc_stack.ss_size = sizeof stack;
  makecontext(&other, other_main, 0);
  takes_turns(&here, &other);   // begins, then the other begins and gives back
  swapcontext(&here, &other);  // the other one's ends
}

void* be_interrupted(void* stack) {
  const stack_t alternate = {stack, 0, 65536};
  sigaltstack(&alternate, nullptr);
  interrupted(1);
  return nullptr;
}

void round(int i) {
  say("CALL recurses %ld\n", recurses(3) / 1000000000);
  for (int k = 0; k < 6; k++) {
    try {
      throws(k);
    } catch (int) {
      pause_for(kPause);
    }
    if (setjmp(escape) == 0)
      jumps(k);
    else
      pause_for(kPause);
  }
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  // Once on a stack that lies above the thread's, once below.
  void* above = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t thread;
  pthread_create(&thread, nullptr, be_interrupted, above);
  pthread_join(thread, nullptr);
  static char below[65536];
  be_interrupted(below);
  munmap(above, 65536);
  take_turns();
  say("CALL chained %ld\n", chained(i) / 1000000000);
}

}  // namespace

int main(int argc, char** argv) { return drive(argc, argv, round); }
