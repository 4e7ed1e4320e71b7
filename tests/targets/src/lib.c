// A shared library as libc is one: a symbol in two versions, an IFUNC, an alias, a weak and a hidden symbol.
#include "driver.h"

KEEP int lib_open_v1(const char* name) { return (int)strlen(name); }
KEEP int lib_open_v2(const char* name, int flags) { return (int)strlen(name) + flags; }
__asm__(".symver lib_open_v1, lib_open@LIB_1.0");
__asm__(".symver lib_open_v2, lib_open@@LIB_2.0");

KEEP static long sum_plain(const int* v, int n) {
  long s = 0;
  while (n-- > 0) s += *v++;
  return s;
}
static long (*resolve_sum(void))(const int*, int) { return sum_plain; }
long lib_sum(const int* v, int n) __attribute__((ifunc("resolve_sum")));

KEEP int lib_close(int handle) { return handle - 1; }
int lib_shut(int handle) __attribute__((alias("lib_close")));
KEEP __attribute__((weak)) int lib_weak(int x) { return x; }
KEEP __attribute__((visibility("hidden"))) int lib_hidden(int x) { return x + driver_quiet; }
int lib_use(int x) { return lib_hidden(x) + lib_weak(x); }

int lib_drive(int argc, char** argv, void (*round)(int)) { return drive(argc, argv, round); }
int lib_quiet(void) { return driver_quiet; }
