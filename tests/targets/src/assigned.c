// Arguments that the function assigns to at once: as the assignment takes no instruction of its own, the debug info has the
// new value at the function's first instruction, too. And names that an inner block has again.
#include "driver.h"

static volatile long sink;
static long table[16];

KEEP void use(long n) { sink = n; }

KEEP long added(long x) {
  x += 100;
  return x * 3;
}

KEEP long fewer(long n, long* p) {
  n--;
  return p[n];
}

KEEP const char* behind(const char* s, long n) {
  s += 2;
  return s + n;
}

KEEP long swapped(long a, long b) {
  long t = a;
  a = b;
  b = t;
  return a * 2 - b;
}

KEEP int constant(int x) {
  x = 5;
  use(x);
  return 1;
}

KEEP long hidden(int n, const char* s) {
  use(n);
  {
    long n = 777;
    const char* s = "inner";
    use(n);
    use((long)s);
  }
  return n + *s;
}

static void play(int i) {
  say("CALL added 10 = %ld\n", added(10));
  say("CALL fewer 7 = %ld\n", fewer(7, table));
  say("CALL behind hello, 1 = %s\n", behind("hello", 1));
  say("CALL swapped 1, 2 = %ld\n", swapped(1, 2));
  say("CALL constant 77 = %d\n", constant(77));
  say("CALL hidden %d, outer = %ld\n", i + 3, hidden(i + 3, "outer"));
}

int main(int argc, char** argv) { return drive(argc, argv, play); }
