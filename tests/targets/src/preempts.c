// Threads of its own making: a timer's handler leaves the one that runs, wherever it is, a probe included, and goes on
// with the other; later it comes back. Each checks its own results.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>

enum { kSwitches = 200, kStack = 1 << 20 };
static ucontext_t first, second;
static volatile sig_atomic_t in_second, switches;
static volatile long wrong;

__attribute__((noipa)) long work(const char* text, long n) { return n * 3 + text[0]; }

static void run_second(void) {
  char text[] = "second";
  for (long n = 0;; n++) wrong += work(text, n) != n * 3 + 's';
}

static void on_timer(int signal) {
  (void)signal;
  if (!in_second) return;
  in_second = 0;
  switches++;
  swapcontext(&second, &first);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_NODEFER};
  sigaction(SIGALRM, &action, NULL);
  getcontext(&second);
  second.uc_stack.ss_sp = malloc(kStack);
  second.uc_stack.ss_size = kStack;
  makecontext(&second, run_second, 0);
  struct itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, NULL);
  while (switches < kSwitches) {
    in_second = 1;
    swapcontext(&first, &second);
    for (long n = 0; n < 10; n++) wrong += work("first", n) != n * 3 + 'f';
  }
  printf("CALL work: switches %d, wrong %ld\n", (int)switches, wrong);
  return wrong != 0;
}
