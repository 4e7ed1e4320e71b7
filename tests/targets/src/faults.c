// A program that owns SIGSEGV: it faults on purpose, catches it, and changes its handler as it goes, while what a
// tracer is asked to read are bad pointers. It checks that it sees its own handlers and its own faults, no more and no
// less, and ends with 1 if not.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "driver.h"

static sigjmp_buf escape;
static volatile int faults_a, faults_b;
static volatile void* fault_at;
static char alternate[64 * 1024];
static char* no_access;

static void on_fault_a(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  faults_a++;
  fault_at = info->si_addr;
  siglongjmp(escape, 1);
}

static void on_fault_b(int number) {
  (void)number;
  faults_b++;
  siglongjmp(escape, 1);
}

static void wrong(const char* what) {
  printf("WRONG %s\n", what);
  exit(1);
}

// What a tracer reads: `text`, which may be anything.
KEEP int look_at(const char* text, int is_good) { return is_good ? text[0] : -1; }

// Faults, and says so.
KEEP int fault_on(const char* text) {
  if (sigsetjmp(escape, 1)) return 1;
  return *(const volatile char*)text == 1 ? 2 : 0;
}

static void handle_by(int which) {
  struct sigaction action = {0}, old;
  if (which == 0) {
    action.sa_sigaction = on_fault_a;
    action.sa_flags = SA_SIGINFO;
  } else {
    action.sa_handler = on_fault_b;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
  }
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGSEGV, NULL, &old);
  if (which == 0 ? old.sa_sigaction != on_fault_a : old.sa_handler != on_fault_b) wrong("its handler is another's");
}

static void* in_a_thread_that_blocks(void* argument) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  for (int i = 0; i < 3; i++) look_at(no_access + i, 0);
  return argument;
}

static void round_of_calls(int i) {
  const int before_a = faults_a, before_b = faults_b;
  handle_by(i % 2);
  look_at("a text", 1);
  look_at(no_access, 0);
  look_at((const char*)(long)i, 0);
  look_at((const char*)0xdeadbeef00000000, 0);
  if (fault_on(no_access + 100) != 1) wrong("no fault where one was due");
  if (i % 2 == 0 && (faults_a != before_a + 1 || fault_at != no_access + 100)) wrong("the first handler's fault");
  if (i % 2 == 1 && faults_b != before_b + 1) wrong("the second handler's fault");
  if (faults_a + faults_b != before_a + before_b + 1) wrong("faults that were not its own");
  // With its default action, and blocked: only who faults would notice.
  signal(SIGSEGV, SIG_DFL);
  look_at(no_access + 200, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, in_a_thread_that_blocks, NULL);
  pthread_join(thread, NULL);
  say("CALL fault_on %d %d\n", faults_a, faults_b);
}

int main(int argc, char** argv) {
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  sigaltstack(&stack, NULL);
  no_access = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return drive(argc, argv, round_of_calls);
}
