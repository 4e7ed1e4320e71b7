// A program that forks, executes, loads libraries and starts threads, and checks its own results. What it does
// is named by its arguments, one after the other:
//   wait          prints READY PID and waits for a line on standard input
//   work N        calls work() N times
//   calls N       the same, and prints each
//   fork N        a child calls work() N times and exits with 7
//   vfork N       a vfork child does, and exits with 7
//   vfork-sleep MS a vfork child sleeps, and exits with 7
//   spawn FILE    posix_spawn of a program
//   raw N         a child by clone(CLONE_VM) on a stack of its own calls work() N times, with no thread pointer of its own
//   linger MS N   a child calls work() N times, sleeps, calls it N times again; not waited for before `reap`
//   later MS N    a child sleeps, then calls work() N times; not waited for before `reap`
//   reap          waits for all children; each must have exited with 7
//   exec FILE …   executes a program with the remaining arguments
//   open FILE N   dlopen, N calls of lib_work(), dlclose
//   reopen FILE K K times the same, with something mapped in between so that it comes to lie elsewhere
//   keep FILE N   dlopen and N calls, without dlclose
//   threads T N   T threads one after the other, each calls work() N times
//   crowd T N     T threads at once, each calls work() N times; none ends before all have
//   sleepers T    T threads that do nothing from then on
//   hand-over     the first thread ends here; another does the rest
//   sleep MS      does nothing
//   undumpable    is not to be looked into (PR_SET_DUMPABLE)
//   filter        from now on a seccomp filter kills the process when it maps memory
// It prints `CALLS n`, the number of calls of work() in this process, and exits with 0 if all was right.
#define _GNU_SOURCE
#include <dlfcn.h>
#ifndef NO_SECCOMP
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

extern char** environ;
static int calls, wrong;

NOINLINE long work(long x) {
  __asm__ volatile("" : "+r"(x)::"memory");
  return 3 * x + 1;
}

static void expect(int is_right, const char* what) {
  if (is_right) return;
  wrong++;
  fprintf(stderr, "WRONG %s\n", what);
}

static void work_often(long n) {
  for (long i = 0; i < n; i++)
    if (work(i) != 3 * i + 1) _exit(98);
  __atomic_add_fetch(&calls, (int)n, __ATOMIC_RELAXED);
}

static void do_calls(long n) {
  for (long i = 0; i < n; i++) printf("CALL work x=%ld = %ld\n", i, work(i));
  calls += (int)n;
}

static int child_work(void* n) {
  for (long i = 0; i < (long)n; i++)
    if (work(i) != 3 * i + 1) _exit(98);
  _exit(7);
}

static void wait_for_child(pid_t child, int want) {
  int status = 0;
  expect(waitpid(child, &status, __WALL) == child && WIFEXITED(status) && WEXITSTATUS(status) == want,
         "a child's end");
}

static void do_fork(long n) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) child_work((void*)n);
  wait_for_child(child, 7);
}

static void do_vfork(long n) {
  pid_t child = vfork();
  if (child == 0) {
    for (long i = 0; i < n; i++)
      if (work(i) != 3 * i + 1) _exit(98);
    _exit(7);
  }
  wait_for_child(child, 7);
}

static void do_vfork_sleep(long ms) {
  pid_t child = vfork();
  if (child == 0) {
    usleep((useconds_t)ms * 1000);
    _exit(7);
  }
  wait_for_child(child, 7);
}

static void do_spawn(char* file) {
  char* arguments[] = {file, NULL};
  pid_t child;
  expect(posix_spawn(&child, file, NULL, NULL, arguments, environ) == 0, "posix_spawn");
  wait_for_child(child, 0);
}

static void do_raw(long n) {
  static char stack[1 << 16];
  pid_t child = clone(child_work, stack + sizeof stack, CLONE_VM | SIGCHLD, (void*)n);
  // Nothing of ours runs meanwhile: the two would share what belongs to one thread.
  wait_for_child(child, 7);
}

static void do_linger(long ms, long n) {
  fflush(stdout);
  if (fork() != 0) return;
  for (long i = 0; i < n; i++) work(i);
  usleep((useconds_t)ms * 1000);
  child_work((void*)n);
}

static void do_later(long ms, long n) {
  fflush(stdout);
  if (fork() != 0) return;
  usleep((useconds_t)ms * 1000);
  child_work((void*)n);
}

static void do_reap(void) {
  int status;
  while (wait(&status) > 0) expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child's end");
}

static void do_open(const char* file, long n, int keep) {
  void* library = dlopen(file, RTLD_NOW);
  long (*lib_work)(long) = library ? (long (*)(long))dlsym(library, "lib_work") : NULL;
  expect(lib_work != NULL, "dlopen");
  if (lib_work == NULL) return;
  for (long i = 0; i < n; i++) expect(lib_work(i) == 5 * i + 2, "lib_work");
  if (!keep) expect(dlclose(library) == 0, "dlclose");
}

static void do_reopen(const char* file, long times) {
  for (long i = 0; i < times; i++) {
    do_open(file, 1, 0);
    if (i % 2 == 0) mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
}

static pthread_barrier_t all_there;

static void* thread_work(void* n) {
  work_often((long)n);
  return NULL;
}

static void* crowd_work(void* n) {
  work_often((long)n);
  pthread_barrier_wait(&all_there);
  return NULL;
}

static void do_threads(long count, long n, int at_once) {
  pthread_t* threads = calloc((size_t)count, sizeof *threads);
  if (at_once) pthread_barrier_init(&all_there, NULL, (unsigned)count);
  for (long i = 0; i < count; i++) {
    expect(pthread_create(&threads[i], NULL, at_once ? crowd_work : thread_work, (void*)n) == 0, "pthread_create");
    if (!at_once) pthread_join(threads[i], NULL);
  }
  for (long i = 0; at_once && i < count; i++) pthread_join(threads[i], NULL);
  free(threads);
}

static void* sleep_on(void* nothing) {
  for (;;) sleep(1000);
  return nothing;
}

static void do_sleepers(long count) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 16);
  pthread_t thread;
  for (long i = 0; i < count; i++)
    expect(pthread_create(&thread, &small, sleep_on, NULL) == 0, "pthread_create");
}

#ifdef NO_SECCOMP
static void do_filter(void) { exit(94); }
#else
static void do_filter(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof code / sizeof code[0], code};
  expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
         "seccomp");
}
#endif

static void do_wait(void) {
  char line[100];
  printf("READY %d\n", (int)getpid());
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) exit(0);
}

static void live(char** a);

static void* live_on(void* rest) {
  live(rest);
  return NULL;
}

static void do_hand_over(char** rest) {
  pthread_t other;
  expect(pthread_create(&other, NULL, live_on, rest) == 0, "pthread_create");
  pthread_exit(NULL);
}

static void live(char** a) {
  while (*a != NULL) {
    const char* what = *a++;
#define TEXT (*a != NULL ? *a++ : (exit(97), ""))
#define NUMBER atol(TEXT)
    if (strcmp(what, "wait") == 0) do_wait();
    else if (strcmp(what, "work") == 0) work_often(NUMBER);
    else if (strcmp(what, "calls") == 0) do_calls(NUMBER);
    else if (strcmp(what, "fork") == 0) do_fork(NUMBER);
    else if (strcmp(what, "vfork") == 0) do_vfork(NUMBER);
    else if (strcmp(what, "vfork-sleep") == 0) do_vfork_sleep(NUMBER);
    else if (strcmp(what, "spawn") == 0) do_spawn(TEXT);
    else if (strcmp(what, "raw") == 0) do_raw(NUMBER);
    else if (strcmp(what, "linger") == 0) { long ms = NUMBER; do_linger(ms, NUMBER); }
    else if (strcmp(what, "later") == 0) { long ms = NUMBER; do_later(ms, NUMBER); }
    else if (strcmp(what, "reap") == 0) do_reap();
    else if (strcmp(what, "open") == 0) { const char* file = TEXT; do_open(file, NUMBER, 0); }
    else if (strcmp(what, "keep") == 0) { const char* file = TEXT; do_open(file, NUMBER, 1); }
    else if (strcmp(what, "reopen") == 0) { const char* file = TEXT; do_reopen(file, NUMBER); }
    else if (strcmp(what, "threads") == 0) { long t = NUMBER; do_threads(t, NUMBER, 0); }
    else if (strcmp(what, "crowd") == 0) { long t = NUMBER; do_threads(t, NUMBER, 1); }
    else if (strcmp(what, "sleepers") == 0) do_sleepers(NUMBER);
    else if (strcmp(what, "hand-over") == 0) do_hand_over(a);
    else if (strcmp(what, "undumpable") == 0) prctl(PR_SET_DUMPABLE, 0);
    else if (strcmp(what, "filter") == 0) do_filter();
    else if (strcmp(what, "sleep") == 0) usleep((useconds_t)NUMBER * 1000);
    else if (strcmp(what, "exec") == 0) { fflush(stdout); execv(a[0], a); exit(96); }
    else exit(95);
  }
  printf("CALLS %d\n", calls);
  exit(wrong == 0 ? 0 : 1);
}

int main(int argc, char** argv) {
  (void)argc;
  live(argv + 1);
}
