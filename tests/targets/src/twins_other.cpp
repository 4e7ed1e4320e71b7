// The other unit of cpp_twins.
#include "driver.h"

namespace {
struct Ctx {
  char name[24];
  long v;
  int id;
};
KEEP int two(Ctx* c) { return c->id; }
}  // namespace

int other_ctx() {
  Ctx c{"name", 7, 8};
  return two(&c);
}
