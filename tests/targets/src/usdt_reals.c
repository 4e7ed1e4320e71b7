// Static probes with floating-point arguments: in vector registers, in others, in memory, of two widths; and one of another type elsewhere.
#define STAP_SDT_ARG_CONSTRAINT norx
#include <sys/sdt.h>

#include "driver.h"

struct sample {
  double value;
  float weight;
};

KEEP double measure(double value, float weight, int times) {
  double scaled = value * times;
  float half = weight / 2;
  // The compiler keeps these where it computes them.
  __asm__("" : "+x"(scaled), "+x"(half));
  STAP_PROBE3(lab, measure, scaled, half, times);
  return scaled;
}

KEEP void store(const struct sample* sample, int number) {
  STAP_PROBE3(lab, store, sample->value, sample->weight, number);
}

KEEP void bits(double value) {
  long word;
  __asm__("movq %1, %0" : "=r"(word) : "x"(value));
  union {
    long word;
    double value;
  } in_general = {word};
  __asm__("" : "+r"(in_general.value));
  STAP_PROBE1(lab, bits, in_general.value);
}

KEEP void either(int number, double value) {
  if (number % 2)
    STAP_PROBE1(lab, either, number);
  else
    STAP_PROBE1(lab, either, value);
}

static void round_of_calls(int i) {
  struct sample sample = {i + 0.125, -0.5f};
  say("CALL measure %g\n", measure(1.5, 0.5f, i));
  store(&sample, i);
  bits(-2.25);
  either(i, 0.5);
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
