// Names that two units, a library or two functions give to different things: this unit, twins_other.c and twins_lib.c.
#include "driver.h"

struct node {
  int a;
  long b;
};
struct list {
  struct node* head;
};
struct shared {
  int first, second;
};
typedef enum { RED, GREEN, BLUE } color_t;
typedef enum { CAT, DOG, COW } animal_t;

struct hidden;
struct hidden* make_hidden(void);

static int counter = 111;
int other_round(int i, struct shared* s);
int lib_node(void);

KEEP int take_node(struct node* n, color_t color, animal_t animal) {
  counter++;
  return n->a + (int)n->b + (int)color + (int)animal;
}
KEEP int take_list(struct list* l) { return l->head->a; }
KEEP int take_shared(struct shared* s) { return s->first - s->second; }
KEEP int take_any(void* n) { return *(int*)n; }
KEEP int take_hidden(struct hidden* h) { return h != NULL; }

KEEP int in_pair(void* v) {
  struct ctx {
    int a, b;
  }* c = v;
  return take_any(c) + c->b;
}
KEEP int in_text(void* v) {
  struct ctx {
    char s[16];
    int b;
  }* c = v;
  return take_any(c) + c->b;
}

static void round_of_calls(int i) {
  struct node n = {1, 2};
  struct list l = {&n};
  struct shared s = {3, 4};
  int pair[2] = {1, 2};
  struct {
    char s[16];
    int b;
  } text = {"text", 77};
  say("CALL take_node = %d\n", take_node(&n, GREEN, COW));
  say("CALL take_list = %d\n", take_list(&l));
  say("CALL take_shared = %d\n", take_shared(&s));
  say("CALL take_any = %d\n", take_any(&n));
  say("CALL take_hidden = %d\n", take_hidden(make_hidden()));
  say("CALL in_pair = %d\n", in_pair(pair));
  say("CALL in_text = %d\n", in_text(&text));
  say("CALL other = %d\n", other_round(i, &s));
  say("CALL lib = %d\n", lib_node());
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
