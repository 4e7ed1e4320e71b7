// A signal handler that leaves by siglongjmp, wherever it has interrupted a thread, a probe included. Made with
// _FORTIFY_SOURCE, where that must be a way up the stack. `wait`: before the first signal, for a line.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kJumps = 500 };
static __thread sigjmp_buf back;
static volatile sig_atomic_t is_ready, jumps;
static volatile long wrong;

__attribute__((noipa)) long look(const char* text, long n) { return n * 3 + text[0]; }

static void on_signal(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}

static void* work(void* text) {
  if (sigsetjmp(back, 1) != 0) jumps++;
  is_ready = 1;
  for (volatile long i = 0; jumps < kJumps; i++) wrong += look(text, i) != i * 3 + 'a';
  is_ready = 0;
  return NULL;
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  char* text = malloc(32);
  snprintf(text, 32, "%s", "a text on the heap");
  pthread_t thread;
  pthread_create(&thread, NULL, work, text);
  while (!is_ready) usleep(100);
  if (argc > 1 && argv[1][0] == 'w') {
    puts("READY");
    fflush(stdout);
    (void)getchar();
  }
  for (int sent = 0; sent < kJumps; sent++) {
    while (jumps < sent) usleep(10);
    pthread_kill(thread, SIGUSR1);
    usleep(50);
  }
  pthread_join(thread, NULL);
  printf("CALL look: jumps %d, wrong %ld\n", (int)jumps, wrong);
  return wrong != 0;
}
