// A program whose work is done in a shared library.
#include <stdio.h>

int lib_open(const char* name, int flags);
int lib_close(int handle);
int lib_use(int x);
long lib_sum(const int* v, int n);
int lib_drive(int argc, char** argv, void (*round)(int));
int lib_quiet(void);

static void round_of_calls(int i) {
  int values[] = {1, 2, i};
  int handle = lib_open("file", i);
  long sum = lib_sum(values, 3) + lib_use(i);
  int closed = lib_close(handle);
  if (!lib_quiet()) printf("CALL lib_open = %d sum = %ld lib_close = %d\n", handle, sum, closed);
}

int main(int argc, char** argv) { return lib_drive(argc, argv, round_of_calls); }
