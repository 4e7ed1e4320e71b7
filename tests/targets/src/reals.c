// Functions of floating-point numbers: their arguments and results are in vector registers.
#include "driver.h"

struct point {
  double x, y;
};
struct small {
  float x, y;
};

KEEP double scale(double value, int times, float by) { return value * times * by; }

KEEP float half(float value) { return value / 2; }

// One argument for each register that the convention has, and one more on the stack.
KEEP double all_of_them(double a, double b, double c, double d, double e, double f, double g, double h, double on_stack) {
  return a + b + c + d + e + f + g + h + on_stack;
}

KEEP double distance(struct point from, struct small to) {
  return (from.x - to.x) * (from.x - to.x) + (from.y - to.y) * (from.y - to.y);
}

KEEP long double longer(double value) { return value * 2; }

static void round_of_calls(int i) {
  say("CALL scale %g\n", scale(i + 0.25, 2, 0.5f));
  say("CALL half %g\n", half(-3.0f - (float)i));
  say("CALL all_of_them %g\n", all_of_them(1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5));
  say("CALL distance %g\n", distance((struct point){4, 6}, (struct small){1, 2}));
  say("CALL longer %Lg\n", longer(1.25));
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
