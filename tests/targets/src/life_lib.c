// A library that c_life loads while it runs.
#define NOINLINE __attribute__((noinline, noclone))

NOINLINE long lib_inner(long x) {
  __asm__ volatile("" : "+r"(x)::"memory");
  return 5 * x;
}

static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = lib_inner(1) == 5; }

NOINLINE long lib_work(long x) { return constructed ? lib_inner(x) + 2 : -1; }
