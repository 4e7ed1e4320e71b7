// A program that goes under seccomp. Its arguments are done in order:
//   work N     calls work() N times (calls N: with a CALL line for each)
//   thread N   the same in a thread of its own, that ends
//   sleeper    a thread that sleeps for ever in a call which no filter here knows
//   sleep N    for so many seconds
//   wait       prints READY PID, waits for a line
//   strict     by prctl: only read, write and exit from now on
//   kill       by prctl: a filter that kills for all but what this program itself does from then on
//   kill_all   the same by syscall(SYS_seccomp), for all threads
//   errno      by prctl: a filter that lets all else fail
//   raw        as kill, by an instruction of its own
//   asks       whether there is seccomp, as programs do: by filters that are nowhere
//   fork       what follows is done in a child; its end is the program's
// It prints how often work() was called, in the child too.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int calls;

__attribute__((noinline)) void work(int number, const char* text) {
  __asm__ volatile("" : : "r"(number), "r"(text));
  calls++;
}

static void work_often(int times) {
  static char text[] = "in memory that can be written";
  for (int i = 0; i < times; i++) work(i, text);
}

static void* work_in_thread(void* times) {
  work_often((int)(size_t)times);
  return NULL;
}

static void* sleep_for_ever(void* unused) {
  for (;;) pause();
  return unused;
}

static void say(const char* text) {
  if (write(1, text, strlen(text)) < 0) syscall(SYS_exit, 4);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  say(what);
  say(" failed\n");
  syscall(SYS_exit, 3);
}

#define LET(number) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void enter(const char* how) {
  const unsigned other = strcmp(how, "errno") == 0 ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      LET(SYS_read),
      LET(SYS_write),
      LET(SYS_exit),
      LET(SYS_exit_group),
      LET(SYS_rt_sigreturn),
      LET(SYS_nanosleep),
      LET(SYS_clock_nanosleep),
      BPF_STMT(BPF_RET | BPF_K, other),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  if (strcmp(how, "kill_all") == 0) {
    expect(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0, how);
  } else if (strcmp(how, "raw") == 0) {
    long result = SYS_prctl;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(PR_SET_SECCOMP), "S"(SECCOMP_MODE_FILTER), "d"(&program)
                     : "rcx", "r11", "memory");
    expect(result == 0, how);
  } else {
    expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, how);
  }
}

static void say_ready(void) {
  char line[64];
  snprintf(line, sizeof line, "READY %d\n", getpid());
  say(line);
}

static void wait_for_line(void) {
  char byte = 0;
  while (read(0, &byte, 1) == 1 && byte != '\n') {
  }
}

static void say_calls(void) {
  char line[32] = "calls ";
  size_t at = strlen(line);
  for (int unit = 1000000; unit > 0; unit /= 10)
    if (calls >= unit || unit == 1) line[at++] = (char)('0' + calls / unit % 10);
  line[at++] = '\n';
  say(line);
}

int main(int count, char** arguments) {
  int waits_first = 0, is_strict = 0;
  for (int i = 1; i < count; i++) waits_first |= strcmp(arguments[i], "wait") == 0;
  if (waits_first) say_ready();
  for (int i = 1; i < count; i++) {
    const char* what = arguments[i];
    const int has_number = i + 1 < count;
    if (strcmp(what, "calls") == 0 && has_number) {
      for (int left = atoi(arguments[++i]); left > 0; left--) {
        work_often(1);
        say("CALL work\n");
      }
    } else if (strcmp(what, "work") == 0 && has_number) {
      work_often(atoi(arguments[++i]));
    } else if (strcmp(what, "thread") == 0 && has_number) {
      pthread_t thread;
      expect(pthread_create(&thread, NULL, work_in_thread, (void*)(size_t)atoi(arguments[++i])) == 0, what);
      pthread_join(thread, NULL);
    } else if (strcmp(what, "sleeper") == 0) {
      pthread_t thread;
      expect(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0, what);
    } else if (strcmp(what, "sleep") == 0 && has_number) {
      const struct timespec time = {atoi(arguments[++i]), 0};
      nanosleep(&time, NULL);
    } else if (strcmp(what, "wait") == 0) {
      wait_for_line();
    } else if (strcmp(what, "strict") == 0) {
      expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, what);
      is_strict = 1;
    } else if (strcmp(what, "asks") == 0) {
      expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) < 0, what);
      expect(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) < 0, what);
      expect(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) < 0, what);
    } else if (strcmp(what, "fork") == 0) {
      const pid_t child = fork();
      expect(child >= 0, what);
      if (child == 0) continue;
      int status = 0;
      waitpid(child, &status, 0);
      if (WIFSIGNALED(status)) say("the child was killed\n");
      return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
    } else {
      enter(what);
    }
  }
  say_calls();
  // The second is not allowed in strict mode.
  syscall(is_strict ? SYS_exit : SYS_exit_group, 0);
}
