// Ways to be called: through functions that keep no frame pointer, change their stack pointer as they go, realign
// it, sit in libc's own code, run as a signal handler, in a thread, or deep down a recursion. `mark_…` functions are
// where a tracer looks; each has one caller only, so what its stack must be is known.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>

#include "driver.h"

static volatile int sink;

KEEP void mark_plain(int i) { sink += i; }
KEEP void plain_3(int i) { mark_plain(i), sink++; }
KEEP void plain_2(int i) {
  volatile char room[100];
  room[i & 63] = 1;
  plain_3(i);
  sink += room[0];
}
KEEP void plain_1(int i) { plain_2(i), sink++; }

KEEP void mark_alloca(char* memory, int size) { sink += memory[size / 2]; }
KEEP void with_alloca(int size) {
  char* memory = alloca(size);
  memset(memory, 1, size);
  mark_alloca(memory, size);
  sink++;
}

KEEP void mark_aligned(char* memory) { sink += memory[1]; }
KEEP void with_aligned(int size) {
  __attribute__((aligned(64))) char memory[128];
  char* more = alloca(size);
  memory[1] = more[0] = 1;
  mark_aligned(memory);
  sink += memory[3] + more[0];
}

KEEP int mark_compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
KEEP void sorted(void) {
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof(int), mark_compare);
  sink += numbers[0];
}

KEEP void mark_handler(int number) { sink += number; }
KEEP void on_signal(int number) { mark_handler(number), sink++; }
KEEP void interrupted(void) {
  raise(SIGUSR1);
  sink++;
}

KEEP void mark_thread(void) { sink++; }
KEEP void* in_thread(void* nothing) {
  mark_thread();
  sink++;
  return nothing;
}
KEEP void threaded(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
}

KEEP void mark_deep(void) { sink++; }
KEEP void recurse(int left) {
  if (left == 0)
    mark_deep();
  else
    recurse(left - 1);
  sink++;
}

KEEP void mark_inlined(int i) { sink += i; }
__attribute__((always_inline)) static inline void inner_inlined(int i) { mark_inlined(i), sink++; }
__attribute__((always_inline)) static inline void outer_inlined(int i) { inner_inlined(i + 1), sink++; }
KEEP void with_inlined(int i) { outer_inlined(i), sink++; }

KEEP void mark_last(void) { sink++; }
// The call is the last instruction: the return address lies in the next function.
KEEP void never_returns(int i) {
  if (i < 0) {
    mark_last();
    exit(sink & 1);
  }
  mark_last();
}

static void round_of_calls(int i) {
  plain_1(i);
  with_alloca(100 + i % 50);
  with_aligned(100 + i % 50);
  sorted();
  interrupted();
  threaded();
  recurse(200);
  with_inlined(i);
  never_returns(i);
  say("CALL round %d\n", i);
}

int main(int argc, char** argv) {
  signal(SIGUSR1, on_signal);
  return drive(argc, argv, round_of_calls);
}
