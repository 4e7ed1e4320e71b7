// Functions that jump back to right behind their first instruction, by means that are not easily seen: labels in a table of
// pointers, labels in a table of distances, and a switch in a loop. And very many that do not: among these, probes are
// planned in another way than alone.
#include "driver.h"

#define NEXT_POINTER goto* pointers[*steps++]
KEEP int by_pointers(const unsigned char* steps) {
  static const void* const pointers[] = {&&skip, &&add, &&subtract, &&end};
  int sum = 0;
skip:
  NEXT_POINTER;
add:
  sum += 3;
  NEXT_POINTER;
subtract:
  sum -= 1;
  NEXT_POINTER;
end:
  return sum;
}

#define NEXT_DISTANCE goto*(&&skip + distances[*steps++])
KEEP int by_distances(const unsigned char* steps) {
  static const int distances[] = {0, &&add - &&skip, &&subtract - &&skip, &&end - &&skip};
  int sum = 0;
skip:
  NEXT_DISTANCE;
add:
  sum += 3;
  NEXT_DISTANCE;
subtract:
  sum -= 1;
  NEXT_DISTANCE;
end:
  return sum;
}

KEEP int by_cases(const unsigned char* steps) {
  for (;;) {
    switch (*steps++ & 15) {
      case 0:
      case 3:
      case 5:
      case 7:
      case 12:
        continue;
      case 1:
        return steps[0];
      case 2:
        return steps[0] + 7;
      case 4:
        return steps[1] * 3;
      case 6:
        return steps[2] ^ 0x55;
      case 8:
        return steps[3] - 9;
      case 9:
        return steps[1] << 2;
      case 10:
        return steps[4] + steps[0];
      case 11:
        return steps[5];
      case 13:
        return steps[6] * steps[1];
      case 14:
        return steps[2] / 3;
      default:
        return steps[3] * 5;
    }
  }
}

#define ONE(a, b, c) \
  KEEP int one_of_many_##a##b##c(int i) { return i * 1##a##b##c; }
#define TEN(a, b)                                                                                                \
  ONE(a, b, 0) ONE(a, b, 1) ONE(a, b, 2) ONE(a, b, 3) ONE(a, b, 4) ONE(a, b, 5) ONE(a, b, 6) ONE(a, b, 7) \
      ONE(a, b, 8) ONE(a, b, 9)
#define HUNDRED(a) \
  TEN(a, 0) TEN(a, 1) TEN(a, 2) TEN(a, 3) TEN(a, 4) TEN(a, 5) TEN(a, 6) TEN(a, 7) TEN(a, 8) TEN(a, 9)
HUNDRED(0)
HUNDRED(1)

static void play(int i) {
  static const unsigned char steps[] = {0, 1, 0, 0, 1, 2, 0, 1, 3};
  static const unsigned char cases[] = {0, 3, 5, 7, 12, 0, 1, 3, 5, 9, 0, 3, 5, 7, 12, 0, 1, 3, 5, 9};
  say("CALL by_pointers = %d\n", by_pointers(steps));
  say("CALL by_distances = %d\n", by_distances(steps));
  for (int from = 0; from < 10; from++) say("CALL by_cases %d = %d\n", from, by_cases(cases + from));
  say("CALL one_of_many %d = %d\n", i, one_of_many_142(i));
}

int main(int argc, char** argv) { return drive(argc, argv, play); }
