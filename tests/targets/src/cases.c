// A switch whose table the code sets no bound to, and one of whose cases is in a part of the function that only its
// symbol tells of. The cases behind it run on into each other: no return shows that they are there. Behind the last one
// there is no room.
#include "driver.h"

__attribute__((cold, noreturn, noinline)) static void give_up(int i) {
  printf("given up at %d\n", i);
  exit(1);
}

KEEP int pick(int which, int i) {
  int result = i;
  switch (which) {
    case 1:
      give_up(i);
    case 0:
      result += 7;
      __attribute__((fallthrough));
    case 2:
      result ^= 0x55;
      __attribute__((fallthrough));
    case 3:
      result *= 5;
      __attribute__((fallthrough));
    case 4:
      result += 1;
      __attribute__((fallthrough));
    case 5:
      result = -result;
      break;
    default:
      __builtin_unreachable();
  }
  return result;
}

static void play(int i) {
  for (int which = 0; which < 6; which++)
    if (which != 1) say("CALL pick %d, %d = %d\n", which, i, pick(which, i));
}

int main(int argc, char** argv) { return drive(argc, argv, play); }
