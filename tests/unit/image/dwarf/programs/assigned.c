// Functions that assign to their parameters before their first instruction does anything: "CALL name a=1 b=2".
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
#define ALONE __attribute__((noipa))
#ifdef __clang__
#undef ALONE
#define ALONE __attribute__((noinline))
#endif

struct pair { long a; long b; };
struct halves { int a; int b; };
volatile long sink;
long table[64];

ALONE void use(long n) { sink = n; }
ALONE long added(long n) { n += 100; return n * 3; }
ALONE long less(long n, long* p) { n--; return p[n]; }
ALONE const char* skipped(const char* s, long n) { s += 2; return s + n; }
ALONE long swapped(long a, long b) { long t = a; a = b; b = t; return a * 2 - b; }
ALONE long turned(long a, long b, long c) { long t = a; a = b; b = c; c = t; return a * 4 + b * 2 - c; }
ALONE int constant(int n) { n = 5; use(n); return 1; }
ALONE unsigned masked(unsigned n, int* p) { n &= ~3u; if (n > 100) return (unsigned)*p; return n; }
ALONE long copied(long a, long b) { a = b; return a * 3; }
ALONE long shifted(long a, long b, long c) { b = c; c = a + 1; return b * 3 + c; }
ALONE long stacked(long a, long b, long c, long d, long e, long f, long g, long h) { long t = g; g = h; h = t; return a + b + c + d + e + f + g * 2 + h; }
ALONE double real(double a, double b) { double t = a; a = b; b = t; return a * 2 - b; }
ALONE long member(struct pair s) { s.a += 1000; return s.a + s.b; }
ALONE long exchanged(struct pair s) { long t = s.a; s.a = s.b; s.b = t; return s.a * 2 + s.b; }
ALONE long half(struct halves s, int n) { use(n); return s.a + s.b + n; }
ALONE long other(long n, long m) { n += 7; return n * 3 + m; }
static NOINLINE long local_added(long n, long m) { n += 100; use(m); return n * 3 + m; }
static NOINLINE long local_swapped(long a, long b) { long t = a; a = b; b = t; use(a); return a * 2 - b; }
static NOINLINE long local_dropped(long gone, long n) { use(n); return n; }
static NOINLINE long local_constant(long k, long n) { use(k + n); use(k); return k * n; }
static NOINLINE long local_replaced(long gone, long n) { gone = 7; use(n); use(gone); return n + gone; }
static NOINLINE long local_derived(long gone, long n) { gone = n + 1; use(n); use(gone); return n + gone; }
static NOINLINE long local_copied(long gone, long n) { gone = n; use(n); use(gone); return n * gone; }

int main(int argc, char** argv) {
  int number = 1;
  puts("CALL added n=10");
  sink = added(10);
  puts("CALL less n=7");
  sink = less(7, table);
  puts("CALL skipped n=1");
  sink = *skipped("hello", 1);
  puts("CALL swapped a=1 b=2");
  sink = swapped(1, 2);
  puts("CALL turned a=1 b=2 c=3");
  sink = turned(1, 2, 3);
  puts("CALL constant n=77");
  sink = constant(77);
  puts("CALL masked n=15");
  sink = masked(15, &number);
  puts("CALL copied a=1 b=2");
  sink = copied(1, 2);
  puts("CALL shifted a=1 b=2 c=3");
  sink = shifted(1, 2, 3);
  puts("CALL stacked a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8");
  sink = stacked(1, 2, 3, 4, 5, 6, 7, 8);
  puts("CALL real a=1.5 b=2.5");
  sink = (long)real(1.5, 2.5);
  puts("CALL member s={a=1 b=2}");
  sink = member((struct pair){1, 2});
  puts("CALL exchanged s={a=1 b=2}");
  sink = exchanged((struct pair){1, 2});
  puts("CALL half s={a=1 b=2} n=3");
  sink = half((struct halves){1, 2}, 3);
  puts("CALL other n=10 m=11");
  sink = other(10, 11);
  sink = 20 + argc - 1;
  puts("CALL local_added n=20 m=21");
  sink = local_added(sink, sink + 1);
  sink = 20 + argc - 1;
  puts("CALL local_swapped a=20 b=21");
  sink = local_swapped(sink, sink + 1);
  sink = 20 + argc - 1;
  puts("CALL local_dropped gone=1 n=20");
  sink = local_dropped(argc, sink);
  sink = 20 + argc - 1;
  puts("CALL local_constant k=5 n=20");
  sink = local_constant(5, sink);
  sink = 20 + argc - 1;
  puts("CALL local_replaced gone=1 n=20");
  sink = local_replaced(argc, sink);
  sink = 20 + argc - 1;
  puts("CALL local_derived gone=1 n=20");
  sink = local_derived(argc, sink);
  sink = 20 + argc - 1;
  puts("CALL local_copied gone=1 n=20");
  sink = local_copied(argc, sink);
  return argv == 0;
}
