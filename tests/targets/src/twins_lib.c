// libc_twins.so: a `struct node` of its own.
#include "driver.h"

struct node {
  char name[8];
  short a;
  int b;
};

static int counter = 333;

KEEP int lib_take(struct node* n) {
  counter++;
  return n->a;
}

int lib_node(void) {
  struct node n = {"lib", 5, 6};
  return lib_take(&n);
}
