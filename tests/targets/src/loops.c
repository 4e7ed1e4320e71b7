// Functions that are hard on whoever sits at their entry. The program checks their results itself, and says OK.
//   sum_down      a loop that begins with the first instruction, and keeps its sum below the stack pointer
//   walk          gets a list whose end leads back to its start
//   part_0 …      so many that each is looked at by its first instructions alone
#include "driver.h"

__asm__(
    ".globl sum_down\n.type sum_down, @function\n"
    "sum_down:\n"
    "  test %rsi, %rsi\n"
    "  jnz 1f\n"
    "  mov -16(%rsp), %rdx\n"
    "1: add %rdi, %rdx\n"
    "  mov %rdx, -16(%rsp)\n"
    "  movq $-1, -8(%rsp)\n"
    "  movq $-1, -24(%rsp)\n"
    "  movq $-1, -32(%rsp)\n"
    "  xor %esi, %esi\n"
    "  dec %rdi\n"
    "  jnz sum_down\n"
    "  mov -16(%rsp), %rax\n"
    "  and -8(%rsp), %rax\n"
    "  and -24(%rsp), %rax\n"
    "  and -32(%rsp), %rax\n"
    "  ret\n"
    ".size sum_down, .-sum_down\n");
long sum_down(long from, long is_first, long sum);

struct node {
  struct node* next;
};
KEEP void walk(struct node* list) { __asm__ volatile("" : : "r"(list) : "memory"); }

#define PART(n) \
  KEEP int part_##n(int x) { return x * n; }
#define TEN(n) \
  PART(n##0) PART(n##1) PART(n##2) PART(n##3) PART(n##4) PART(n##5) PART(n##6) PART(n##7) PART(n##8) PART(n##9)
#define HUNDRED(n) \
  TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(1) HUNDRED(2) HUNDRED(3)

static void round(int i) {
  static int is_wrong;
  struct node* first = malloc(sizeof *first);
  first->next = first;
  is_wrong |= sum_down(10, 1, 0) != 55;
  walk(first);
  is_wrong |= part_342(2) != 684;
  free(first);
  say("CALL %s %d\n", is_wrong ? "WRONG" : "OK", i);
}

int main(int argc, char** argv) { return drive(argc, argv, round); }
