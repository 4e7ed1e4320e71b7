// What C++ passes by reference, numbers of 128 bits, and functions of one name that differ in their
// parameters.
#include "driver.h"

struct Inner {
  int a, b;
};

struct Outer {
  const Inner& inner;
  int& number;
  __int128 huge;
  unsigned __int128 wide;
};

KEEP int by_reference(int& number, const Inner& inner, const Outer& outer) {
  return number + inner.a + outer.inner.b + outer.number + (int)outer.huge;
}
KEEP int by_array(int (&row)[4]) { return row[0] + row[3]; }
KEEP int moved(Inner&& inner) { return inner.a - inner.b; }

unsigned __int128 numbers[2] = {1, (unsigned __int128)1 << 100};
KEEP __int128 wider(__int128 number, int less, unsigned __int128* all) { return number - less + (int)all[0]; }

KEEP int same(int i) { return i; }
KEEP int same(const char* text) { return text[0]; }
KEEP int same(int i, int j) { return i + j; }

static void play(int i) {
  int number = 42 + i;
  int row[4] = {1, 2, 3, 4};
  Inner inner = {7, 8};
  Outer outer = {inner, number, -5, ((unsigned __int128)1 << 100) + 9};
  say("CALL by_reference %d = %d\n", number, by_reference(number, inner, outer));
  say("CALL by_array = %d\n", by_array(row));
  say("CALL moved = %d\n", moved({20, 6}));
  say("CALL wider = %d\n", (int)wider(((__int128)5 << 64) + 7, 12, numbers));
  say("CALL same %d = %d %d %d\n", i, same(i), same("text"), same(i, 2));
}

int main(int argc, char** argv) { return drive(argc, argv, play); }
