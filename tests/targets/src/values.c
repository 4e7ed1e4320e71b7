// Arguments and results of every class that the calling convention knows. For each call the program prints what a tracer must see if it shows
// anything: "TRUTH function expression value".
#include <complex.h>
#undef I
#include <stdarg.h>

#include "driver.h"

#define NOINLINE __attribute__((noinline))

static volatile long zero;
static volatile double no_real;
static void* volatile hide_from_optimizer;

#define I(function, what, value) say("TRUTH %s %s %lld\n", #function, what, (long long)(value))
#define D(function, what, value) say("TRUTH %s %s %.17g\n", #function, what, (double)(value))

KEEP short small(signed char a, unsigned char b, short c, unsigned short d, _Bool e, char f) { return (short)(a + b + c + d + e + f); }
KEEP signed char narrow_result(long x) { return (signed char)x; }
KEEP unsigned char narrow_unsigned(long x) { return (unsigned char)x; }
KEEP _Bool bool_result(long x) { return x > 3; }
KEEP unsigned unsigned_result(long x) { return (unsigned)x; }
KEEP int ints(int a, unsigned b, long c, unsigned long d, const volatile int e) { return a - (int)b + (int)c - (int)d + e; }
KEEP long on_stack(int a, int b, int c, int d, int e, int f, signed char g, _Bool h, short i, long j) { return a + b + c + d + e + f + g + h + i + j; }
KEEP __int128 wide(__int128 a, int b, unsigned __int128 c) { return a + b + (__int128)c; }
KEEP int wide_on_stack(int a, int b, int c, int d, int e, __int128 f, int g) { return a + b + c + d + e + (int)f + g; }
KEEP float reals(float a, double b, int c, float d) { return (float)(a + b + c + d); }
KEEP double many_reals(double a, float b, double c, double d, double e, double f, double g, double h, double i, float j, int k) {
  return a + b + c + d + e + f + g + h + i + j + k;
}
KEEP long double longest(long double a, int b, double c) { return a + b + c; }
KEEP complex double complex_double(complex double a, int b) { return a * b; }
KEEP complex float complex_float(complex float a, float b) { return a * b; }
KEEP complex long double complex_longest(int a, complex long double b) { return b * a; }

struct dd { double x, y; };
struct ff { float x, y; };
struct fff { float x, y, z; };
struct dl { double x; long n; };
struct ld { long n; double x; };
struct mix { int n; float x; double y; };
struct csi { char c; short s; int i; };
struct three { short a, b, c; };
struct tiny { signed char a; };
struct __attribute__((packed)) packed { char c; int i; void* p; };
struct bits { int a : 3; unsigned b : 5; int c : 9; long d : 40; unsigned char e : 1; };
struct big { long a; double b; int c; };
struct four { float v[4]; };
struct words { int v[3]; };
struct nested { struct ff p; struct { char tag; float w; } q; };
struct aligned { _Alignas(16) int n; double x; };
struct flexible { int n; char rest[]; };
union either { int n; float x; };
union eight { double x; long n; };
enum color { red = -1, green = 7, blue = 40 };
typedef float float4 __attribute__((vector_size(16)));

KEEP struct flexible take_flexible(int k, struct flexible a, int n) { a.n += k + n; return a; }
KEEP struct dd take_dd(struct dd a, int n) { a.x += n; return a; }
KEEP struct ff take_ff(struct ff a, struct ff b) { a.x += b.y; return a; }
KEEP struct fff take_fff(struct fff a, float k) { a.z *= k; return a; }
KEEP struct dl take_dl(int n, struct dl a) { a.n += n; return a; }
KEEP struct ld take_ld(struct ld a, double k) { a.x *= k; return a; }
KEEP struct mix take_mix(struct mix a) { a.n++; return a; }
KEEP struct csi take_csi(struct csi a) { a.s = (short)-a.s; return a; }
KEEP struct three take_three(struct three a) { a.b = (short)(a.b * 2); return a; }
KEEP struct tiny take_tiny(struct tiny a) { a.a = (signed char)-a.a; return a; }
KEEP struct packed take_packed(struct packed a, int n) { a.i += n; return a; }
KEEP struct bits take_bits(struct bits a, struct bits* b) { a.c = b->c; return a; }
KEEP struct big take_big(int n, struct big a, double k) { a.a += n; a.b *= k; return a; }
KEEP struct four take_four(struct four a) { a.v[2] = 9; return a; }
KEEP struct words take_words(struct words a) { a.v[1] = -9; return a; }
KEEP struct nested take_nested(struct nested a) { a.q.w += 1; return a; }
KEEP struct aligned take_aligned(int n, struct aligned a) { a.n += n; return a; }
KEEP union either take_either(union either a) { a.n++; return a; }
KEEP union eight take_eight(union eight a, int n) { a.n += n; return a; }
KEEP enum color take_color(enum color a, enum color b) { return a == b ? green : a; }
KEEP float4 take_vector(float4 a, int n, float4 b) { return a + b * (float)n; }
KEEP long no_room(long a, long b, long c, long d, long e, struct ld f, struct dd g, long h) { return a + b + c + d + e + f.n + (long)g.x + h; }
KEEP const char* text(const char* a, int n) { return a + n; }
KEEP double variadic(int n, double x, ...) {
  va_list list;
  va_start(list, x);
  for (int i = 0; i < n; i++) x += va_arg(list, int);
  va_end(list);
  return x;
}

// What the compiler may change as it sees all callers: parameters that go away, become constants, or members of what they point to.
static NOINLINE int unused(int a, int not_used, int b) { return a * b + (int)zero; }
static NOINLINE int constant(int a, int always_five, double x) { return a * always_five + (int)x + (int)zero; }
static NOINLINE int through(const struct big* p, int n) { return (int)p->a + p->c + n + (int)zero; }
static NOINLINE double result_unused(int n, double x) {
  no_real = x * n;
  return no_real + 1;
}
static NOINLINE int same_result(int n) {
  zero += n - n;
  return 42;
}
static NOINLINE long with_cold(long n, double x) {
  if (__builtin_expect(n > 1000, 0)) {
    say("cold %g\n", x);
    abort();
  }
  return n * 2 + (long)x;
}

static void numbers(void) {
  // The upper parts of the registers are whatever the caller left there.
  typedef short with_rubbish(long, long, long, long, long, long);
  with_rubbish* rubbish = (with_rubbish*)small;
  long r = 0x5a5a5a5a5a5a0000 + zero;
  I(small, "retval", (short)(-2 + 200 - 300 + 60000 + 1 + 'x'));
  rubbish(r | 0xfe, r | 200, r | (unsigned short)-300, r | 60000, 1 | (r & ~0xff), r | 'x');
  I(small, "args.a", -2), I(small, "args.b", 200), I(small, "args.c", -300), I(small, "args.d", 60000), I(small, "args.e", 1), I(small, "args.f", 'x');
  I(narrow_result, "retval", narrow_result(r + 0x180));
  I(narrow_unsigned, "retval", narrow_unsigned(r + 0x1f0));
  I(bool_result, "retval", bool_result(r));
  I(unsigned_result, "retval", unsigned_result(r - 5));
  I(ints, "retval", ints(-1, 4000000000u, -5000000000, 1, 77)), I(ints, "args.a", -1), I(ints, "args.b", 4000000000u), I(ints, "args.c", -5000000000);
  I(ints, "args.d", 1), I(ints, "args.e", 77);
  I(on_stack, "retval", on_stack(1, 2, 3, 4, 5, 6, (signed char)(-7 + zero), 1, (short)(-9 + zero), 10));
  I(on_stack, "args.f", 6), I(on_stack, "args.g", -7), I(on_stack, "args.h", 1), I(on_stack, "args.i", -9), I(on_stack, "args.j", 10);
  I(wide, "retval", wide(-3, 4, 50)), I(wide, "args.a", -3), I(wide, "args.b", 4), I(wide, "args.c", 50);
  I(wide_on_stack, "retval", wide_on_stack(1, 2, 3, 4, 5, -6, 7)), I(wide_on_stack, "args.e", 5), I(wide_on_stack, "args.f", -6), I(wide_on_stack, "args.g", 7);
  D(reals, "retval", reals(1.5f, 2.25, -3, 0.1f)), D(reals, "args.a", 1.5), D(reals, "args.b", 2.25), I(reals, "args.c", -3), D(reals, "args.d", 0.1f);
  D(many_reals, "retval", many_reals(1.5, 2.5f, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5f, 11));
  D(many_reals, "args.a", 1.5), D(many_reals, "args.b", 2.5), D(many_reals, "args.h", 8.5), D(many_reals, "args.i", 9.5), D(many_reals, "args.j", 10.5), I(many_reals, "args.k", 11);
  D(longest, "retval", longest(1.25L, 3, 0.5)), D(longest, "args.a", 1.25), I(longest, "args.b", 3), D(longest, "args.c", 0.5);
  complex double cd = complex_double(1.5 + 2.5 * _Complex_I, 2);
  D(complex_double, "retval[0]", creal(cd)), D(complex_double, "retval[1]", cimag(cd)), D(complex_double, "args.a[0]", 1.5), D(complex_double, "args.a[1]", 2.5);
  I(complex_double, "args.b", 2);
  complex float cf = complex_float(1.5f - 2.5f * _Complex_I, 3);
  D(complex_float, "retval[0]", creal(cf)), D(complex_float, "retval[1]", cimag(cf)), D(complex_float, "args.a[0]", 1.5), D(complex_float, "args.a[1]", -2.5);
  D(complex_float, "args.b", 3);
  complex long double cl = complex_longest(4, 1.5L);
  D(complex_longest, "retval[0]", creal(cl)), I(complex_longest, "args.a", 4), D(complex_longest, "args.b[0]", 1.5);
}

static void structs(void) {
  struct dd dd = take_dd((struct dd){1.5, -2.5}, 3);
  D(take_dd, "args.a.x", 1.5), D(take_dd, "args.a.y", -2.5), I(take_dd, "args.n", 3), D(take_dd, "retval.x", dd.x), D(take_dd, "retval.y", dd.y);
  struct ff ff = take_ff((struct ff){0.5f, 1.5f}, (struct ff){2.5f, 3.5f});
  D(take_ff, "args.a.x", 0.5), D(take_ff, "args.a.y", 1.5), D(take_ff, "args.b.x", 2.5), D(take_ff, "args.b.y", 3.5), D(take_ff, "retval.x", ff.x), D(take_ff, "retval.y", ff.y);
  struct fff fff = take_fff((struct fff){1.25f, 2.25f, 3.25f}, 2);
  D(take_fff, "args.a.x", 1.25), D(take_fff, "args.a.y", 2.25), D(take_fff, "args.a.z", 3.25), D(take_fff, "args.k", 2), D(take_fff, "retval.z", fff.z), D(take_fff, "retval.y", fff.y);
  struct dl dl = take_dl(5, (struct dl){0.75, -6});
  I(take_dl, "args.n", 5), D(take_dl, "args.a.x", 0.75), I(take_dl, "args.a.n", -6), D(take_dl, "retval.x", dl.x), I(take_dl, "retval.n", dl.n);
  struct ld ld = take_ld((struct ld){-7, 1.75}, 2);
  I(take_ld, "args.a.n", -7), D(take_ld, "args.a.x", 1.75), D(take_ld, "args.k", 2), I(take_ld, "retval.n", ld.n), D(take_ld, "retval.x", ld.x);
  struct mix mix = take_mix((struct mix){-8, 0.125f, 8.5});
  I(take_mix, "args.a.n", -8), D(take_mix, "args.a.x", 0.125), D(take_mix, "args.a.y", 8.5), I(take_mix, "retval.n", mix.n), D(take_mix, "retval.x", mix.x), D(take_mix, "retval.y", mix.y);
  struct csi csi = take_csi((struct csi){'c', -300, 70000});
  I(take_csi, "args.a.c", 'c'), I(take_csi, "args.a.s", -300), I(take_csi, "args.a.i", 70000), I(take_csi, "retval.s", csi.s), I(take_csi, "retval.i", csi.i);
  struct three three = take_three((struct three){-1, -2, -3});
  I(take_three, "args.a.a", -1), I(take_three, "args.a.b", -2), I(take_three, "args.a.c", -3), I(take_three, "retval.b", three.b), I(take_three, "retval.c", three.c);
  struct tiny tiny = take_tiny((struct tiny){-100});
  I(take_tiny, "args.a.a", -100), I(take_tiny, "retval.a", tiny.a);
  struct packed packed = take_packed((struct packed){'p', -11, (void*)&zero}, 2);
  I(take_packed, "args.a.c", 'p'), I(take_packed, "args.a.i", -11), I(take_packed, "args.n", 2), I(take_packed, "retval.i", packed.i), I(take_packed, "retval.c", packed.c);
  struct bits b = {3, 30, -200, -123456789012, 1}, bits = take_bits((struct bits){-4, 31, 255, 123456789012, 0}, &b);
  I(take_bits, "args.a.a", -4), I(take_bits, "args.a.b", 31), I(take_bits, "args.a.c", 255), I(take_bits, "args.a.d", 123456789012), I(take_bits, "args.a.e", 0);
  I(take_bits, "args.b->a", 3), I(take_bits, "args.b->c", -200), I(take_bits, "args.b->d", -123456789012), I(take_bits, "args.b->e", 1);
  I(take_bits, "retval.a", bits.a), I(take_bits, "retval.c", bits.c), I(take_bits, "retval.d", bits.d);
  struct big big = take_big(6, (struct big){-12, 1.5, 13}, 4);
  I(take_big, "args.n", 6), I(take_big, "args.a.a", -12), D(take_big, "args.a.b", 1.5), I(take_big, "args.a.c", 13), D(take_big, "args.k", 4);
  I(take_big, "retval.a", big.a), D(take_big, "retval.b", big.b), I(take_big, "retval.c", big.c);
  struct four four = take_four((struct four){{1, 2, 3, 4}});
  D(take_four, "args.a.v[0]", 1), D(take_four, "args.a.v[3]", 4), D(take_four, "retval.v[2]", four.v[2]), D(take_four, "retval.v[3]", four.v[3]);
  struct words words = take_words((struct words){{5, 6, -7}});
  I(take_words, "args.a.v[0]", 5), I(take_words, "args.a.v[2]", -7), I(take_words, "retval.v[1]", words.v[1]), I(take_words, "retval.v[2]", words.v[2]);
  struct nested nested = take_nested((struct nested){{1.5f, 2.5f}, {'t', 3.5f}});
  D(take_nested, "args.a.p.y", 2.5), I(take_nested, "args.a.q.tag", 't'), D(take_nested, "args.a.q.w", 3.5), D(take_nested, "retval.p.x", nested.p.x), D(take_nested, "retval.q.w", nested.q.w);
  struct aligned aligned = take_aligned(2, (struct aligned){14, 15.5});
  I(take_aligned, "args.n", 2), I(take_aligned, "args.a.n", 14), D(take_aligned, "args.a.x", 15.5), I(take_aligned, "retval.n", aligned.n), D(take_aligned, "retval.x", aligned.x);
  union either either = take_either((union either){.n = 0x3f800000});
  D(take_either, "args.a.x", 1), I(take_either, "args.a.n", 0x3f800000), I(take_either, "retval.n", either.n), D(take_either, "retval.x", either.x);
  union eight eight = take_eight((union eight){.x = 2.5}, 0);
  D(take_eight, "args.a.x", 2.5), D(take_eight, "retval.x", eight.x);
}

static void others(void) {
  I(take_color, "(int32)retval", take_color(red, blue)), I(take_color, "(int32)args.a", red), I(take_color, "(int32)args.b", blue);
  float4 vector = take_vector((float4){1, 2, 3, 4}, 2, (float4){5, 6, 7, 8});
  for (int i = 0; i < 4; i++) {
    char what[16];
    snprintf(what, sizeof what, "args.a[%d]", i), D(take_vector, what, 1 + i);
    snprintf(what, sizeof what, "args.b[%d]", i), D(take_vector, what, 5 + i);
    snprintf(what, sizeof what, "retval[%d]", i), D(take_vector, what, vector[i]);
  }
  I(take_vector, "args.n", 2);
  struct flexible flexible = {5 + (int)zero};
  I(take_flexible, "retval.n", take_flexible(1, flexible, 2).n), I(take_flexible, "args.k", 1), I(take_flexible, "args.a.n", 5), I(take_flexible, "args.n", 2);
  I(no_room, "retval", no_room(1, 2, 3, 4, 5, (struct ld){6, 7.5}, (struct dd){8.5, 9.5}, 10));
  I(no_room, "args.e", 5), I(no_room, "args.f.n", 6), D(no_room, "args.f.x", 7.5), D(no_room, "args.g.x", 8.5), D(no_room, "args.g.y", 9.5), I(no_room, "args.h", 10);
  text("some text", 5), I(text, "args.n", 5), say("TRUTH text str(args.a) some text\n"), say("TRUTH text str(retval) text\n");
  D(variadic, "retval", variadic(2, 1.5, 10, 20)), I(variadic, "args.n", 2), D(variadic, "args.x", 1.5);
  // The compiler must not know these.
  int seven = 7 + (int)zero, eight = 8 + (int)zero;
  double half = 0.5 + no_real;
  struct big big = {seven, half, eight};
  hide_from_optimizer = &big;
  I(unused, "retval", unused(seven, eight, seven)), I(unused, "args.a", 7), I(unused, "args.not_used", 8), I(unused, "args.b", 7);
  I(constant, "retval", constant(seven, 5, half)), I(constant, "args.a", 7), I(constant, "args.always_five", 5), D(constant, "args.x", 0.5);
  I(through, "retval", through(&big, seven)), I(through, "args.p->a", 7), I(through, "args.p->c", 8), I(through, "args.n", 7);
  result_unused(seven, half), D(result_unused, "retval", 7 * 0.5 + 1), I(result_unused, "args.n", 7), D(result_unused, "args.x", 0.5);
  no_real = 0;
  I(same_result, "retval", same_result(seven)), I(same_result, "args.n", 7);
  I(with_cold, "retval", with_cold(seven, half)), I(with_cold, "args.n", 7), D(with_cold, "args.x", 0.5);
}

static void round_of_calls(int i) {
  say("CALL round %d\n", i);
  numbers();
  structs();
  others();
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
