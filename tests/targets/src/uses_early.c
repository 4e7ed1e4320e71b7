// A program that calls what its library's constructor has called before.
#include <stdio.h>

int early_prepare(int amount);

int main(void) {
  const int twice = early_prepare(1);
  printf("CALL early_prepare amount=1 = %d\n", twice);
  return twice - 84;
}
