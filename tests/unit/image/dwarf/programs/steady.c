// Functions whose parameters keep their values from the first instruction to the last, and which lay out their
// frames in different ways. All are called with 101, 102 and so on.
#include <stdlib.h>
#include <string.h>

#define OWN __attribute__((noinline, noclone))
volatile long sink;
OWN void use(long value) { sink += value; }
OWN long many(long a, long b, long c, long d, long e, long f, long g, long h) {
  use(a + b + c);
  return d + e + f + g + h;
}

OWN long plain(long a, long b) {
  long c = a * 2;
  use(c);
  return c + b;
}
OWN long on_stack(long a, long b, long c, long d, long e, long f, long g, char h) {
  for (long i = 0; i < 2; i++) use(a + i * b);
  use(c * d + e * f);
  return g + h;
}
// Pushes arguments of its own, around calls.
OWN long pushes(long a, long b, long c, long d, long e, long f, long g, char h) {
  long first = many(a, b, c, d, e, f, g, h);
  return first + many(h, g, f, e, d, c, b, a);
}
OWN long has_address(long a, long b) {
  volatile long* at = &a;
  use(*at + b);
  return *at;
}
// The frame is made on one way only.
OWN long late(long a, long b, long c, long d, long e, long f, long g, char h) {
  if (a == 0) return b + g;
  long buffer[40];
  memset(buffer, (int)c, sizeof buffer);
  use(buffer[b & 7] + h);
  return buffer[d & 7] + e + f;
}
OWN long aligned(long a, long b, long c, long d, long e, long f, long g, char h) {
  long buffer[8] __attribute__((aligned(64)));
  memset(buffer, (int)a, sizeof buffer);
  use((long)buffer);
  return buffer[b & 7] + c + d + e + f + g + h;
}
OWN long varies(long a, long b, long c, long d, long e, long f, long g, char h) {
  long buffer[8] __attribute__((aligned(64)));
  char more[a];
  memset(more, 1, (size_t)a);
  memset(buffer, (int)a, sizeof buffer);
  use((long)buffer + (long)more);
  return buffer[b & 7] + more[c & 7] + d + e + f + g + h;
}

OWN long aligned_pushes(long a, long b, long c, long d, long e, long f, long g, char h) {
  long buffer[8] __attribute__((aligned(64)));
  memset(buffer, (int)a, sizeof buffer);
  use((long)buffer);
  return many(buffer[b & 7], a, b, c, d, e, f, many(g, h, a, b, c, d, e, f));
}

// The caller leaves room above the return address for what it passes in registers.
OWN __attribute__((ms_abi)) long shadowed(long a, long b, long c, long d, long e, char f) {
  use(a + b + c);
  return d + e + f;
}

OWN void fill(void) {
  char old[4096];
  memset(old, 0x55, sizeof old);
  use((long)old);
}

int main(void) {
  fill();
  plain(101, 102);
  on_stack(101, 102, 103, 104, 105, 106, 107, 108);
  pushes(101, 102, 103, 104, 105, 106, 107, 108);
  has_address(101, 102);
  late(101, 102, 103, 104, 105, 106, 107, 108);
  aligned(101, 102, 103, 104, 105, 106, 107, 108);
  aligned_pushes(101, 102, 103, 104, 105, 106, 107, 108);
  shadowed(101, 102, 103, 104, 105, 106);
  varies(101, 102, 103, 104, 105, 106, 107, 108);
  return 0;
}
