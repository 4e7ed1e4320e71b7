// Functions that begin with an instruction which the kernel does not probe: a locked one, one with a segment, one of
// vectors.
#include "driver.h"

int locked_add(int* number, int more);
int with_segment(int number);
void vector_load(const char* text, char* to);
int plain(int number);
__asm__(
    ".text\n"
    ".type locked_add, @function\nlocked_add: lock addl %esi, (%rdi)\n movl (%rdi), %eax\n ret\n"
    ".size locked_add, .-locked_add\n"
    ".type with_segment, @function\nwith_segment: .byte 0x2e\n leal 1(%rdi), %eax\n ret\n"
    ".size with_segment, .-with_segment\n"
    ".type vector_load, @function\nvector_load: vmovdqu (%rdi), %xmm0\n vmovdqu %xmm0, (%rsi)\n ret\n"
    ".size vector_load, .-vector_load\n"
    ".type plain, @function\nplain: leal 2(%rdi), %eax\n ret\n"
    ".size plain, .-plain\n");

static void play(int i) {
  int number = i;
  char to[16];
  say("CALL locked_add = %d\n", locked_add(&number, 5));
  say("CALL with_segment = %d\n", with_segment(i));
  if (__builtin_cpu_supports("avx")) vector_load("fifteen letters", to);
  say("CALL plain = %d\n", plain(i));
}

int main(int argc, char** argv) { return drive(argc, argv, play); }
