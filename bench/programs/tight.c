// A tiny function in a tight loop, and what a call of it takes: the cost of a probe is the difference to the untraced call.
//
//   tight CALLS THREADS FILE [PAUSE]   Each thread on a core of its own. CALLS calls a thread in 20 pieces; the least and the
//                              median time of a call in a piece, in nanoseconds, are written to FILE, a line a thread.
//                              With TIGHT_HEAP in the environment the text is on the heap.
//                              PAUSE milliseconds between the pieces, in which who reads events can catch up.
// Compiled with -DLTTNG, the function reports a 32-byte event of LTTng-UST's at each call.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "tight_lttng.h"
#endif

enum { kPieces = 20, kMostThreads = 64 };

#ifdef __GNUC__
__attribute__((noipa))
#endif
uint64_t work(uint64_t key, const char* text, uint64_t piece) {
#ifdef LTTNG
  lttng_ust_tracepoint(tight, work, key, (uint64_t)text, piece, key + piece);
#endif
  return (key * 3 + piece) ^ (uint64_t)(unsigned char)text[0];
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct Thread {
  pthread_t thread;
  int core;
  unsigned pause;
  uint64_t calls, sum;
  double took[kPieces];
} __attribute__((aligned(256)));

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void* run(void* argument) {
  struct Thread* self = argument;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(self->core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
  const uint64_t calls = self->calls / kPieces;
  const char* const text = getenv("TIGHT_HEAP") ? strdup("a text of 15 ch") : "a text of 15 ch";
  uint64_t sum = 0;
  for (int piece = 0; piece < kPieces; piece++) {
    uint64_t begin = now(), key = 0;
    for (uint64_t i = 0; i < calls; i++) {
      sum += work(key, text, (uint64_t)piece);
      if (++key == 1000) key = 0;
    }
    self->took[piece] = (double)(now() - begin) / (double)calls;
    if (self->pause) usleep(self->pause * 1000);
  }
  self->sum = sum;
  qsort(self->took, kPieces, sizeof(double), by_value);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  static struct Thread threads[kMostThreads];
  int count = atoi(argv[2]);
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int core = CPU_SETSIZE - 1;
  for (int i = 0; i < count; i++, core--) {
    while (core > 0 && !CPU_ISSET(core, &allowed)) core--;
    threads[i].core = core;
    threads[i].pause = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
    threads[i].calls = strtoull(argv[1], 0, 10);
    pthread_create(&threads[i].thread, 0, run, &threads[i]);
  }
  FILE* file = fopen(argv[3], "w");
  for (int i = 0; i < count; i++) {
    pthread_join(threads[i].thread, 0);
    if (file) fprintf(file, "%.3f %.3f\n", threads[i].took[0], threads[i].took[kPieces / 2]);
  }
  return file ? fclose(file) : 1;
}
