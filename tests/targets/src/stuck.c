// A program whose signal handler does not return for long when it has come at a bad time: in the middle of a
// probe's code. Calls work() all the time; a timer's signal comes a thousand times a second. The first one that
// interrupts code that is not the program's own prints STUCK and waits for a line on standard input. Then it
// returns, and the program goes on until the end of its input: it prints `rounds=N` and exits with 0 if all was
// right.
//   stuck            prints READY PID
//   stuck calls N    calls work() N times, and prints each
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
extern char __executable_start, etext;
static volatile int is_looping, has_ended, was_stuck;

NOINLINE long work(long x) {
  __asm__ volatile("" : "+r"(x)::"memory");
  return 3 * x + 1;
}

static void say(const char* text) {
  if (write(1, text, strlen(text)) < 0) _exit(99);
}

static void on_signal(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
  const char* at = (const char*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  if (!is_looping || was_stuck || (at >= &__executable_start && at < &etext)) return;
  was_stuck = 1;
  say("STUCK\n");
  char byte;
  do {
    if (read(0, &byte, 1) == 1) continue;
    has_ended = 1;
    break;
  } while (byte != '\n');
  say("FREE\n");
}

int main(int count, char** words) {
  if (count == 3 && strcmp(words[1], "calls") == 0) {
    for (long i = 0; i < atol(words[2]); i++) printf("CALL work x=%ld = %ld\n", i, work(i));
    return 0;
  }
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct itimerval often = {{0, 1000}, {0, 1000}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  printf("READY %d\n", getpid());
  fflush(stdout);
  long rounds = 0;
  for (int i = 0; !has_ended; i++) {
    is_looping = 1;
    for (long x = 0; x < 100000; x++)
      if (work(x) != 3 * x + 1) return 1;
    is_looping = 0;
    rounds++;
    // Once it was stuck, it ends with its input.
    char byte;
    if (was_stuck && i % 16 == 0 && read(0, &byte, 1) == 0) break;
  }
  printf("rounds=%ld\n", rounds);
  return 0;
}
