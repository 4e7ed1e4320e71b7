// Vectors of 32 bytes inside of structs, which are then passed and returned in one register, and not over memory with
// a hidden pointer as other structs of that size. Compiled with -mavx.
#include "driver.h"

typedef int int_lanes __attribute__((vector_size(32)));

struct lanes {
  int_lanes all;
};

KEEP struct lanes spread(long first, long step) {
  struct lanes result;
  for (int i = 0; i < 8; i++) result.all[i] = (int)(first + i * step);
  return result;
}

KEEP long total(struct lanes lanes, long extra) {
  for (int i = 0; i < 8; i++) extra += lanes.all[i];
  return extra;
}

static void play(int i) {
  struct lanes lanes = spread(i, 3);
  say("CALL spread %d, 3\nCALL total %d = %ld\n", i, i, total(lanes, i));
}

int main(int argc, char** argv) {
  if (__builtin_cpu_supports("avx")) return drive(argc, argv, play);
  puts("no AVX here");
  return 0;
}
