// What lies close in a struct: bits that cross words, texts that fill their array to its last byte, with the next member
// right behind; and what C++ has two names for: constructors and destructors.
#include "driver.h"

struct Label {
  char code[4];
  char place[4];
  char rest[3];
};

struct Rows {
  char rows[3][4];
  char last[4];
  long behind;
};

struct Item {
  int size;
  KEEP explicit Item(int n) : size(n) {}
  KEEP ~Item() { size = 0; }
};

// Not KEEP, which has gcc put the body into a third function that both call.
struct Crate : virtual Item {
  __attribute__((noinline)) explicit Crate(int n) : Item(n) {}
  __attribute__((noinline)) ~Crate() {}
};

struct __attribute__((packed)) Bits {
  char first;
  int a : 7;
  unsigned b : 13;
  long across : 50;
  bool flag : 1;
  unsigned long wide : 62;
  short behind;
};

KEEP int take_bits(Bits* bits) { return bits->a + bits->behind; }
KEEP int take_label(Label label, Label* at, Rows* rows) {
  return label.code[3] + at->place[3] + rows->last[3];
}
KEEP Label give_label(Label label) { return label; }
KEEP int look_at(Item* item) { return item->size; }

static void play(int i) {
  Label label;
  Rows rows;
  memcpy(&label, "abcdefghij", sizeof label);  // two that end without a NUL, one with it
  memcpy(rows.rows, "0123456789ab", sizeof rows.rows);
  memcpy(rows.last, "x\0yz", sizeof rows.last);
  rows.behind = 0x4141414141414141;
  Bits bits = {'x', -50, 8000, -400000000000000L, true, 0x3ffffffffffffffaUL, -2};
  say("CALL take_bits = %d\n", take_bits(&bits));
  say("CALL take_label = %d\n", take_label(label, &label, &rows));
  say("CALL give_label = %c\n", give_label(label).code[3]);
  {
    Item item(i);
    Crate crate(i + 1);
    say("CALL look_at = %d %d\n", look_at(&item), look_at(&crate));
  }
}

int main(int argc, char** argv) { return drive(argc, argv, play); }
