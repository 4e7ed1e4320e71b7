// Functions whose first instructions are of each kind that a probe can stand behind. Two threads call them without pause,
// and a round calls each of them 300 times with 7 as its first argument. Every result is checked; ends with 1 if one was wrong.
#include <pthread.h>

#include "driver.h"

enum { COUNT = 300 };

// Each returns the sum of its first and its seventh argument.
typedef long function(long, long, long, long, long, long, long);

#define FUNCTION(name, code)                                                                    \
  asm(".pushsection .text\n.balign 32, 0xcc\n.globl " #name "\n.type " #name ", @function\n" #name \
      ":\n" code "\n.size " #name ", . - " #name "\n.balign 32, 0xcc\n.popsection");             \
  extern function name;

FUNCTION(begins_push, "push %rbx\n mov %rdi, %rbx\n mov 16(%rsp), %rax\n add %rbx, %rax\n pop %rbx\n ret")
FUNCTION(begins_push_r12, "push %r12\n mov %rdi, %r12\n mov 16(%rsp), %rax\n add %r12, %rax\n pop %r12\n ret")
FUNCTION(begins_sub, "sub $24, %rsp\n mov %rdi, 8(%rsp)\n mov 32(%rsp), %rax\n add 8(%rsp), %rax\n add $24, %rsp\n ret")
FUNCTION(begins_test, "test %rdi, %rdi\n js 1f\n mov 8(%rsp), %rax\n add %rdi, %rax\n ret\n 1: ud2")
FUNCTION(begins_endbr64, "endbr64\n push %rbp\n mov %rsp, %rbp\n mov 16(%rbp), %rax\n add %rdi, %rax\n leave\n ret")
FUNCTION(begins_nop, "nopl 0x0(%rax,%rax,1)\n mov 8(%rsp), %rax\n add %rdi, %rax\n ret")
FUNCTION(begins_move, "mov %rdi, %rax\n add 8(%rsp), %rax\n nop\n ret")

static function* const all[] = {begins_push, begins_push_r12, begins_sub, begins_test,
                                begins_endbr64, begins_nop, begins_move};
static volatile int stop;
static long wrong;

static void call_all(long first) {
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i](first, 2, 3, 4, 5, 6, first + 35) != first + first + 35) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
}

static void* call_on(void* unused) {
  (void)unused;
  for (long n = 100; !stop; n++) call_all(n);
  return NULL;
}

static void round_of_calls(int round) {
  for (int i = 0; i < COUNT; i++) call_all(7);
  say("CALL each %d times, round %d\n", COUNT, round);
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, call_on, NULL);
  drive(argc, argv, round_of_calls);
  stop = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("wrong %ld\n", wrong);
  return wrong != 0;
}
