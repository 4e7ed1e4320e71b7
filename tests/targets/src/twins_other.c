// The other unit of c_twins: what it names as twins.c does is something else, but for `struct shared`.
#include "driver.h"

struct node {
  long b;
  char pad[20];
  int a;
};
struct list {
  struct node* head;
};
struct shared {
  int first, second;
};
struct hidden {
  int secret;
};
typedef enum { LOW, MID, HIGH } level_t;

static short counter = -222;

KEEP struct hidden* make_hidden(void) {
  static struct hidden one = {42};
  return &one;
}
KEEP int other_node(struct node* n, level_t level) {
  counter--;
  return n->a + (int)level;
}
KEEP int other_list(struct list* l) { return l->head->a; }
KEEP int other_shared(struct shared* s) { return s->first - s->second; }
KEEP int other_any(void* n) { return (int)*(long*)n; }

int other_round(int i, struct shared* s) {
  struct node n = {7, {0}, 9};
  struct list l = {&n};
  int sum = other_node(&n, HIGH);
  sum += other_list(&l);
  sum += other_shared(s);
  sum += other_any(&n);
  return sum + i;
}
