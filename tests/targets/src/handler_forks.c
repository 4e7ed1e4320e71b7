// A timer's handler forks, wherever it has interrupted the program, a probe included. The child comes back out of it,
// finishes what was interrupted, checks its results and ends; the parent has waited, and goes on.
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kForks = 100, kCallsOfChild = 50 };
static volatile sig_atomic_t forks, bad, is_child;

__attribute__((noipa)) long look(const char* text, long n) { return n * 3 + text[0]; }

static void on_timer(int signal) {
  (void)signal;
  if (is_child || forks >= kForks) return;
  pid_t child = fork();
  if (child == 0) {
    is_child = 1;
    return;
  }
  int status = -1;
  waitpid(child, &status, 0);
  bad += status != 0;
  forks++;
}

int main(void) {
  struct sigaction action = {.sa_handler = on_timer};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, NULL);
  long wrong = 0;
  char* text = malloc(32);
  snprintf(text, 32, "%s", "a text on the heap");
  for (long i = 0, last = 0; forks < kForks && last < kCallsOfChild; i++) {
    wrong += look(text, i) != i * 3 + 'a';
    last += is_child;
  }
  if (is_child) _exit(wrong != 0);
  printf("CALL look: forks %d, children that failed %d, wrong %ld\n", (int)forks, (int)bad, wrong);
  return wrong != 0 || bad != 0;
}
