// Calls functions of every parameter class with values that it prints first: "CALL name a=1 b=2".
#include <complex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

struct one { int a; };
struct two { int a; long b; };
struct mixed { long a; double b; };
struct floats2 { float a; float b; };
struct floats3 { float a; float b; float c; };
struct intfloat { int a; float b; };
struct doubles { double a; double b; };
struct small3 { char a[3]; };
struct bytes { char a; short b; int c; };
struct five { char a; int b; };
struct odd12 { int a; int b; int c; };
struct big { long a; long b; long c; };
struct bits { unsigned a : 3; int b : 5; unsigned c : 20; unsigned long d : 40; };
struct nested { struct one a; struct floats2 b; };
struct arr { short a[5]; };
struct ld { long double a; };
union either { long a; double b; };
enum color { RED = -1, GREEN = 7 };
typedef int number;
// What LLVM knows that all callers pass it takes for a constant, which an assignment may be as well.
static volatile int opaque;

NOINLINE int ints(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long g, unsigned long h) { KEEP; return a + b + c + d + e + (int)f + (int)g + (int)h; }
NOINLINE double reals(float a, double b, int c, float d, long double e, double f) { KEEP; return a + b + c + d + (double)e + f; }
NOINLINE int misc(bool a, enum color b, const char* c, number d, _Bool e) { KEEP; return a + b + d + e + (c != 0); }
NOINLINE int s_one(struct one s) { KEEP; return s.a; }
NOINLINE int s_two(struct two s, int n) { KEEP; return s.a + (int)s.b + n; }
NOINLINE int s_mixed(struct mixed s, int n, double d) { KEEP; return (int)s.a + n + (int)(s.b + d); }
NOINLINE int s_floats2(struct floats2 s, float f) { KEEP; return (int)(s.a + s.b + f); }
NOINLINE int s_floats3(struct floats3 s, double f) { KEEP; return (int)(s.a + s.b + s.c + f); }
NOINLINE int s_intfloat(struct intfloat s, int n) { KEEP; return s.a + (int)s.b + n; }
NOINLINE int s_doubles(struct doubles s, double d) { KEEP; return (int)(s.a + s.b + d); }
NOINLINE int s_small3(struct small3 s, int n) { KEEP; return s.a[0] + s.a[2] + n; }
NOINLINE int s_bytes(struct bytes s, char q) { KEEP; return s.a + s.b + s.c + q; }
NOINLINE int s_five(struct five s, int n) { KEEP; return s.a + s.b + n; }
NOINLINE int s_odd12(struct odd12 s, int n) { KEEP; return s.a + s.b + s.c + n; }
NOINLINE int s_big(int n, struct big s, int m) { KEEP; return n + (int)(s.a + s.b + s.c) + m; }
NOINLINE int s_bits(struct bits s, int n) { KEEP; return (int)s.a + s.b + (int)s.c + (int)s.d + n; }
NOINLINE int s_nested(struct nested s, float f) { KEEP; return s.a.a + (int)(s.b.a + s.b.b + f); }
NOINLINE int s_arr(struct arr s, int n) { KEEP; return s.a[0] + s.a[4] + n; }
NOINLINE int s_ld(int n, struct ld s, int m) { KEEP; return n + (int)s.a + m; }
NOINLINE int s_union(union either s, int n) { KEEP; return (int)s.a + n; }
NOINLINE int wide(__int128 a, int b, __int128 c) { KEEP; return (int)a + b + (int)c; }
NOINLINE int split(int a, int b, int c, int d, int e, struct two s, int f, int g) { KEEP; return a + b + c + d + e + s.a + (int)s.b + f + g; }
NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, char h, double i, short j, long double k, int l) { KEEP; return a + b + c + d + e + f + g + h + (int)i + j + (int)k + l; }
NOINLINE int floats9(double a, double b, double c, double d, double e, double f, double g, double h, double i, float j) { KEEP; return (int)(a + b + c + d + e + f + g + h + i + j); }
NOINLINE int cplx(float complex a, double complex b, int c) { KEEP; return (int)(crealf(a) + cimag(b)) + c; }
NOINLINE struct big ret_big(int a, struct one s) { KEEP; struct big r = {a, s.a, 3}; return r; }
NOINLINE struct ld ret_ld(int a) { KEEP; struct ld r = {a}; return r; }
NOINLINE int unused(int a, long b, double c, struct two s, int d) { KEEP; return d; }
NOINLINE int changed(int a, int b, int c) { a += 5; KEEP; b = a * c; KEEP; return b + printf("%s", ""); }
NOINLINE int taken(int a, long b, double c) { int* p = &a; long* q = &b; __asm__ volatile("" ::"r"(p), "r"(q), "r"(&c) : "memory"); *p += 1; return *p + (int)*q; }
NOINLINE int first_of(int n, const char* what, ...) { va_list list; va_start(list, what); int r = va_arg(list, int); va_end(list); KEEP; return r + n + (what != 0); }
static NOINLINE int local(int n, const char* t, double d, struct two s) { KEEP; return n + (t != 0) + (int)d + s.a; }
static NOINLINE int local_unused(int a, int b, int c) { KEEP; return a + c; }
static NOINLINE int local_pointer(const struct two* p, int n) { KEEP; return p->a + n; }
NOINLINE int vla(int n, int m) { volatile char x[n]; x[0] = 1; KEEP; return x[0] + m; }
NOINLINE int aligned(int n, int m) { volatile double __attribute__((aligned(64))) x[8]; x[0] = n; KEEP; return (int)x[0] + m; }

#define SAY(...) (printf("CALL " __VA_ARGS__), printf("\n"), fflush(stdout))

int main(int argc, char** argv) {
  volatile int r = 0;
  SAY("ints a=-5 b=200 c=-300 d=60000 e=-70000 f=4000000000 g=-5000000000 h=18000000000000000000");
  r += ints(-5, 200, -300, 60000, -70000, 4000000000u, -5000000000, 18000000000000000000ul);
  SAY("reals a=1.5 b=-2.25 c=3 d=4.75 e=5.5 f=6.125");
  r += (int)reals(1.5f, -2.25, 3, 4.75f, 5.5L, 6.125);
  SAY("misc a=true b=-1 c=\"text\" d=42 e=false");
  r += misc(argc > 0, RED, "text", 42, argc > 5);
  SAY("s_one s={a=11}"); r += s_one((struct one){11});
  SAY("s_two s={a=1 b=-2} n=3"); r += s_two((struct two){1, -2}, 3);
  SAY("s_mixed s={a=4 b=5.5} n=6 d=7.5"); r += s_mixed((struct mixed){4, 5.5}, 6, 7.5);
  SAY("s_floats2 s={a=1.5 b=2.5} f=3.5"); r += s_floats2((struct floats2){1.5f, 2.5f}, 3.5f);
  SAY("s_floats3 s={a=1.5 b=2.5 c=3.5} f=4.5"); r += s_floats3((struct floats3){1.5f, 2.5f, 3.5f}, 4.5);
  SAY("s_intfloat s={a=9 b=0.5} n=10"); r += s_intfloat((struct intfloat){9, 0.5f}, 10);
  SAY("s_doubles s={a=1.25 b=2.75} d=3.125"); r += s_doubles((struct doubles){1.25, 2.75}, 3.125);
  SAY("s_small3 s={a=[1 2 3]} n=4"); r += s_small3((struct small3){{1, 2, 3}}, 4);
  SAY("s_bytes s={a=1 b=-2 c=3} q=4"); r += s_bytes((struct bytes){1, -2, 3}, 4);
  SAY("s_five s={a=-1 b=77} n=5"); r += s_five((struct five){-1, 77}, 5);
  SAY("s_odd12 s={a=1 b=2 c=-3} n=4"); r += s_odd12((struct odd12){1, 2, -3}, 4);
  SAY("s_big n=1 s={a=2 b=3 c=4} m=5"); r += s_big(1, (struct big){2, 3, 4}, 5);
  SAY("s_bits s={a=5 b=-6 c=70000 d=800000000} n=9"); r += s_bits((struct bits){5, -6, 70000, 800000000}, 9);
  SAY("s_nested s={a={a=8} b={a=0.25 b=0.75}} f=2.5"); r += s_nested((struct nested){{8}, {0.25f, 0.75f}}, 2.5f);
  SAY("s_arr s={a=[1 2 3 4 5]} n=6"); r += s_arr((struct arr){{1, 2, 3, 4, 5}}, 6);
  SAY("s_ld n=1 s={a=2.5} m=3"); r += s_ld(1, (struct ld){2.5L}, 3);
  SAY("s_union s={a=123456789} n=2"); r += s_union((union either){.a = 123456789}, 2);
  SAY("wide a=0x1:0x2 b=3 c=0x4:0x5"); r += wide(((__int128)1 << 64) | 2, 3, ((__int128)4 << 64) | 5);
  SAY("split a=1 b=2 c=3 d=4 e=5 s={a=6 b=7} f=8 g=9"); r += split(1, 2, 3, 4, 5, (struct two){6, 7}, 8, 9);
  SAY("many a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9.5 j=-10 k=11.5 l=12"); r += many(1, 2, 3, 4, 5, 6, 7, 8, 9.5, -10, 11.5L, 12);
  SAY("floats9 a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9.5 j=10.5"); r += floats9(1, 2, 3, 4, 5, 6, 7, 8, 9.5, 10.5f);
  SAY("cplx a=1.5+i2.5 b=3.5+i4.5 c=5"); r += cplx(1.5f + 2.5f * I, 3.5 + 4.5 * I, 5);
  SAY("ret_big a=7 s={a=8}"); r += (int)ret_big(7, (struct one){8}).a;
  SAY("ret_ld a=9"); r += (int)ret_ld(9).a;
  SAY("unused a=1 b=2 c=3.5 s={a=4 b=5} d=6"); r += unused(1, 2, 3.5, (struct two){4, 5}, 6);
  SAY("changed a=1 b=2 c=3"); r += changed(1, 2, 3);
  SAY("taken a=10 b=20 c=30.5"); r += taken(10, 20, 30.5);
  SAY("first_of n=3 what=\"abc\""); r += first_of(3, "abc", 5);
  SAY("local n=1 t=\"loc\" d=2.5 s={a=3 b=4}"); r += local(opaque + 1, "loc", opaque + 2.5, (struct two){3, 4});
  SAY("local_unused a=1 b=2 c=3"); r += local_unused(opaque + 1, opaque + 2, opaque + 3);
  struct two t = {5, 6};
  SAY("local_pointer p=%p n=7", (void*)&t); r += local_pointer(&t, opaque + 7);
  SAY("vla n=33 m=4"); r += vla(33, 4);
  SAY("aligned n=34 m=5"); r += aligned(34, 5);
  printf("%d %s\n", r, argv[0] ? "" : "?");
  return 0;
}
