// Names that stand for several things in C++: members that hide those of a base, two bases with one name, enumerators of
// two enums, and what this unit and twins_other.cpp have in their anonymous namespaces.
#include "driver.h"

struct Base {
  int x, y;
};
struct Derived : Base {
  int x, z;
};
struct Last : Derived {
  int y;
};
struct Left {
  int v, only;
};
struct Right {
  int v, w;
};
struct Both : Left, Right {
  int q;
};
enum class E1 { X = 1, Y = 2 };
enum class E2 { X = 5, Y = 6 };

namespace {
struct Ctx {
  int id;
  long v;
};
KEEP int one(Ctx* c) { return c->id; }
}  // namespace

int other_ctx();

KEEP int take_derived(Derived* d) { return d->x; }
KEEP int take_last(Last* l) { return l->y; }
KEEP int take_both(Both* b) { return b->q; }
KEEP int take_enums(E1 a, E2 b) { return int(a) + int(b); }

static void round_of_calls(int i) {
  Derived d;
  d.Base::x = 1;
  d.Base::y = 2;
  d.x = 3;
  d.z = 4;
  Last l;
  static_cast<Derived&>(l) = d;
  l.y = 5;
  Both b;
  b.Left::v = 1;
  b.only = 7;
  b.Right::v = 2;
  b.w = 3;
  b.q = 4;
  Ctx c{1, 2};
  say("CALL take_derived = %d\n", take_derived(&d));
  say("CALL take_last = %d\n", take_last(&l));
  say("CALL take_both = %d\n", take_both(&b));
  say("CALL take_enums = %d\n", take_enums(E1::X, E2::X));
  say("CALL take_enums = %d\n", take_enums(E1(5), E2(1)));
  say("CALL one = %d %d\n", one(&c), i);
  say("CALL other_ctx = %d\n", other_ctx());
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
