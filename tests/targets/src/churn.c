// A program that makes thousands of threads that do not live long, each on a stack of its own at a place
// where none was before, so that no two have the same thread pointer; up to ALIVE are there at once, fewer
// and more by turns, and they end in no order: half of them at once, the others when they are told to.
//   churn [wait] [children K] TOTAL ALIVE CALLS
//   churn calls N    N threads, and prints each
// Each calls announce(its thread's id, its number), before and after it waits, and work(number, i) CALLS times
// in all; each third ends inside of leave_inside() and never returns from it. With `children`, K forked children do all that instead, one
// after the other. Prints `THREADS n CALLS m` and exits with 0 if all results were right and all thread
// pointers different.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
enum { STACK = 64 << 10, MOST_ALIVE = 4096 };

static long calls_each, calls, threads;
static char *stacks, *last_pointer;
static sem_t* ends;

NOINLINE long work(long number, long i) {
  __asm__ volatile("" : "+r"(number), "+r"(i)::"memory");
  return 3 * number + i;
}

NOINLINE void announce(long tid, long number) {
  __asm__ volatile("" ::"r"(tid), "r"(number) : "memory");
}

NOINLINE void leave_inside(long number) {
  __asm__ volatile("" ::"r"(number) : "memory");
  pthread_exit(NULL);
}

static void work_often(long number, long from, long to) {
  announce(syscall(SYS_gettid), number);
  for (long i = from; i < to; i++)
    if (work(number, i) != 3 * number + i) _exit(98);
}

static void* one_thread(void* argument) {
  const long number = (long)argument;
  work_often(number, 0, calls_each / 2);
  while (number % 2 && sem_wait(&ends[number]) != 0)
    if (errno != EINTR) _exit(92);
  work_often(number, calls_each / 2, calls_each);
  __atomic_add_fetch(&calls, calls_each, __ATOMIC_RELAXED);
  __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
  if (number % 3 == 0) leave_inside(number);
  return NULL;
}

struct One {
  pthread_t thread;
  long number;
};

static struct One start(long number) {
  struct One one = {0, number};
  char* stack = stacks + number * STACK;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (mprotect(stack, STACK, PROT_READ | PROT_WRITE) != 0 ||
      pthread_attr_setstack(&attributes, stack, STACK) != 0)
    _exit(97);
  while (pthread_create(&one.thread, &attributes, one_thread, (void*)number) == EAGAIN) usleep(1000);
  // It is where its pthread_t says.
  if ((char*)one.thread <= last_pointer) _exit(96);
  last_pointer = (char*)one.thread;
  return one;
}

static void finish(struct One one) {
  sem_post(&ends[one.number]);
  if (pthread_join(one.thread, NULL) != 0) _exit(95);
  munmap(stacks + one.number * STACK, STACK);
}

static void churn(long total, long most_alive) {
  static struct One alive[MOST_ALIVE];
  long count = 0, wanted = 1;
  uint32_t random = 1;
  stacks = mmap(NULL, (size_t)total * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ends = calloc((size_t)total, sizeof *ends);
  if (stacks == MAP_FAILED || !ends) _exit(94);
  for (long number = 0; number < total; number++) {
    random = random * 1664525 + 1013904223;
    if (number % 256 == 0) wanted = 1 + (long)(random >> 8) % most_alive;
    while (count >= wanted) {
      random = random * 1664525 + 1013904223;
      const long which = (long)(random >> 8) % count;
      finish(alive[which]);
      alive[which] = alive[--count];
    }
    alive[count++] = start(number);
  }
  while (count > 0) finish(alive[--count]);
}

static void in_children(long children, long total, long alive) {
  for (long i = 0; i < children; i++) {
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
      threads = calls = 0;
      churn(total, alive);
      _exit(threads == total && calls == total * calls_each ? 7 : 99);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) _exit(93);
    threads += total;
    calls += total * calls_each;
  }
}

int main(int count, char** words) {
  long children = 0;
  if (count > 1 && strcmp(words[1], "wait") == 0) {
    char line[16];
    printf("READY %d\n", getpid());
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    count--, words++;
  }
  if (count > 2 && strcmp(words[1], "children") == 0) {
    children = atol(words[2]);
    count -= 2, words += 2;
  }
  if (count == 3 && strcmp(words[1], "calls") == 0) {
    churn(calls_each = atol(words[2]), 1);
    for (long i = 0; i < threads; i++) printf("CALL work number=%ld i=%ld = %ld\n", i, i, work(i, i));
    return 0;
  }
  if (count != 4) return 2;
  const long total = atol(words[1]), alive = atol(words[2]);
  if (alive < 1 || alive > MOST_ALIVE) return 2;
  calls_each = atol(words[3]);
  if (children)
    in_children(children, total, alive);
  else
    churn(total, alive);
  printf("THREADS %ld CALLS %ld\n", threads, calls);
  const long runs = children ? children : 1;
  return threads == runs * total && calls == runs * total * calls_each ? 0 : 1;
}
