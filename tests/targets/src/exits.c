// Ways out of functions that leave little room for a probe: a return of one byte that jumps lead to, with other code
// right behind it, as compilers write them; and hand-written code that runs on into the next function, or in which
// strings go backwards.
#include <wctype.h>

#include "driver.h"

long lone_return(long), runs_on(long), next_one(long), backwards(long);

// Above 100: minus that. Even: the same. Above 50: twice that and one. Else three times that, less 6.
__asm__(
    ".text\n"
    ".p2align 5\n"
    ".globl lone_return, runs_on, next_one\n"
    ".type lone_return, @function\n"
    "lone_return:\n"
    "  mov %rdi, %rax\n"
    "  cmp $100, %rdi\n"
    "  ja 2f\n"
    "  test $1, %dil\n"
    "  je 1f\n"
    "  lea 1(%rax,%rax), %rax\n"
    "  cmp $50, %rdi\n"
    "  ja 1f\n"
    "  add %rdi, %rax\n"
    "  sub $7, %rax\n"
    "1: ret\n"
    "2: neg %rax\n"
    "  ret\n"
    ".size lone_return, . - lone_return\n"
    // Adds 5, and goes on in the next, which takes it three times.
    ".p2align 5\n"
    ".type runs_on, @function\n"
    "runs_on:\n"
    "  add $5, %rdi\n"
    ".size runs_on, . - runs_on\n"
    ".p2align 4\n"
    ".type next_one, @function\n"
    "next_one:\n"
    "  lea (%rdi,%rdi,2), %rax\n"
    "  ret\n"
    ".size next_one, . - next_one\n"
    ".globl backwards\n"
    ".p2align 5\n"
    ".type backwards, @function\n"
    "backwards:\n"
    "  .cfi_startproc\n"
    "  std\n"
    "  lea 1(%rdi,%rdi), %rax\n"
    "  cld\n"
    "  ret\n"
    "  .cfi_endproc\n"
    ".size backwards, . - backwards\n");

static void round_of_calls(int i) {
  static const long numbers[] = {4, 7, 51, 101};
  for (int n = 0; n < 4; n++) say("CALL lone_return %ld = %ld\n", numbers[n], lone_return(numbers[n]));
  say("CALL runs_on %d = %ld\n", i, runs_on(i));
  say("CALL backwards %d = %ld\n", i, backwards(i));
  say("CALL next_one %d = %ld\n", i, next_one(i));
  const wint_t characters[] = {L'a', L' ', 0x3b1, 0x2014};
  for (int n = 0; n < 4; n++) say("CALL iswalnum %d = %d\n", (int)characters[n], iswalnum(characters[n]) != 0);
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
