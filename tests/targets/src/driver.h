// What every C and C++ target's main does. A target defines round(i), which calls each of its functions once and prints a
// CALL line for each, so that what a tracer saw can be compared with what happened.
//
//   TARGET                    print READY, then a round every 10 ms, quietly, until killed
//   TARGET calls N            N rounds with CALL lines, then exit
//   TARGET wait               print READY, then a round for each line on standard input; exit at its end
//   TARGET spin SECONDS       print READY, then rounds without pause; prints rounds=N at the end
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int driver_quiet;

// Calls must stay calls, with their arguments where the ABI puts them, whatever the optimiser thinks.
#if defined(__clang__)
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noipa))
#endif

__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  if (driver_quiet) return;
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
}

static double driver_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int drive(int argc, char** argv, void (*round)(int)) {
  const char* mode = argc > 1 ? argv[1] : "";
  int number = argc > 2 ? atoi(argv[2]) : 1;
  setvbuf(stdout, NULL, _IOLBF, 1 << 16);
  if (!strcmp(mode, "calls")) {
    for (int i = 0; i < number; i++) round(i);
    return 0;
  }
  printf("READY %d\n", (int)getpid());
  if (!strcmp(mode, "wait")) {
    char line[256];
    for (int i = 0; fgets(line, sizeof line, stdin); i++) round(i);
    return 0;
  }
  driver_quiet = 1;
  if (!strcmp(mode, "spin")) {
    long rounds = 0;
    for (double end = driver_now() + number; driver_now() < end; rounds++) round((int)rounds);
    printf("rounds=%ld\n", rounds);
    return 0;
  }
  for (int i = 0;; i++) {
    round(i);
    usleep(10000);
  }
}
