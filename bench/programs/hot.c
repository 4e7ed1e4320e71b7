// Calls a tiny function again and again and says what a call took, so that what a probe on it costs can be seen.
//
//   hot KIND CALLS RATE FILE   RATE calls a second (0: without pause); nanoseconds a call are written to FILE.
//     KIND push: behind_endbr, which begins with endbr64 and push; lea: leaf, whose first instruction must be single-stepped;
//     args: three(a, b, c), which begins with push; endbr_args: the same with endbr64 before
//   hot idle                   prints READY, then a call of tick() every 100 us, until killed
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noipa))

uint64_t sum;

// As compilers begin functions since they emit endbr64, with a frame pointer or a saved register.
void behind_endbr(uint64_t i);
asm(".globl behind_endbr\n.type behind_endbr, @function\nbehind_endbr:\n endbr64\n push %rbp\n mov %rsp, %rbp\n add %rdi, sum(%rip)\n"
    " pop %rbp\n ret\n.size behind_endbr, .-behind_endbr\n");
// No cheaper place to probe than the first instruction.
void leaf(uint64_t i);
asm(".globl leaf\n.type leaf, @function\nleaf:\n lea 1(%rdi), %rax\n add %rax, sum(%rip)\n ret\n.size leaf, .-leaf\n");

// With what compilers emit for -fcf-protection, and without.
void three(int a, long b, const char* c);
void three_endbr(int a, long b, const char* c);
#define THREE(name, first)                                                                                          \
  asm(".globl " #name "\n.type " #name ", @function\n" #name ":\n" first " push %rbx\n movsbq (%rdx), %rbx\n"        \
      " add %rbx, sum(%rip)\n pop %rbx\n ret\n.size " #name ", .-" #name "\n")
THREE(three, "");
THREE(three_endbr, " endbr64\n");

KEEP void tick(int i) { sum += (uint64_t)i; }

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void report(const char* path, uint64_t begin, uint64_t calls) {
  FILE* file = fopen(path, "w");
  if (!file) return;
  fprintf(file, "%.3f\n", (double)(now() - begin) / (double)calls);
  fclose(file);
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "idle";
  uint64_t calls = argc > 2 ? strtoull(argv[2], 0, 10) : 0, rate = argc > 3 ? strtoull(argv[3], 0, 10) : 0;
  if (!strcmp(kind, "idle")) {
    printf("READY\n");
    fflush(stdout);
    for (int i = 0;; i++, usleep(100)) tick(i);
  }
  uint64_t begin = now();
  if (strstr(kind, "args")) {
    void (*function)(int, long, const char*) = !strcmp(kind, "args") ? three : three_endbr;
    for (uint64_t i = 0; i < calls; i++) {
      function((int)i, (long)i * 3, "text");
      // In bursts of 16, as a clock is not free either.
      if (rate != 0 && i % 16 == 15)
        while ((now() - begin) * rate < i * 1000000000u) {
        }
    }
  } else {
    void (*function)(uint64_t) = !strcmp(kind, "push") ? behind_endbr : leaf;
    for (uint64_t i = 0; i < calls; i++) function(i);
  }
  report(argc > 4 ? argv[4] : "/dev/stderr", begin, calls);
  return sum == 42;
}
