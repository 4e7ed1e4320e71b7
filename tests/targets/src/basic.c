// C as it is met: every kind of argument, a static function, an inlined one, recursion, a function pointer, a cold part.
#include "driver.h"

enum color { RED, GREEN = 5, BLUE };

struct point {
  int x, y;
  double z;
};

struct rect {  // larger than two registers: passed in memory
  struct point from, to;
  enum color fill;
};

struct flags {
  unsigned ready : 1;
  unsigned mode : 3;
  int level : 5;
  unsigned long wide : 40;
};

union number {
  int i;
  float f;
  unsigned char bytes[8];
};

struct record {
  char name[16];
  unsigned short ports[4];
  struct point* place;
  union number value;
  struct flags flags;
};

struct node {
  int value;
  struct node* next;
};

typedef struct node* list;

int total_calls;
struct point origin = {1, 2, 3.5};
static const char* greeting = "hello";

KEEP int add(int a, int b) {
  total_calls++;
  return a + b;
}

KEEP long mix(char c, short s, int i, long l, unsigned char uc, unsigned long ul, _Bool yes) {
  return c + s + i + l + uc + (long)ul + yes;
}

KEEP double scale(double x, float y, int n) { return x * y + n; }

KEEP const char* greet(const char* name, int times) {
  static char text[128];
  snprintf(text, sizeof text, "%s %s x%d", greeting, name, times);
  return text;
}

KEEP int move_point(struct point* p, int dx, int dy) {
  p->x += dx;
  p->y += dy;
  return p->x + p->y;
}

KEEP struct point make_point(int x, int y, double z) { return (struct point){x, y, z}; }

KEEP double area_of(struct rect r) { return (r.to.x - r.from.x) * (double)(r.to.y - r.from.y); }

KEEP int check_flags(struct flags* f) { return f->ready ? f->mode + f->level : 0; }

KEEP int use_record(const struct record* r, enum color c) { return r->ports[1] + r->place->x + (int)c; }

KEEP int many(int a, int b, int c, int d, int e, int f, int g, long h, char i) {
  return a + b + c + d + e + f + g + (int)h + i;
}

KEEP int list_length(list head) {
  int n = 0;
  for (; head; head = head->next) n++;
  return n;
}

KEEP int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

KEEP static int hidden_sum(const int* values, int count) {
  int sum = 0;
  for (int i = 0; i < count; i++) sum += values[i];
  return sum;
}

__attribute__((always_inline)) static inline int clamp(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}

KEEP int limit(int value) { return clamp(value * 3, -10, 10); }

KEEP static int twice(int v) { return v * 2; }

KEEP int apply(int (*function)(int), int value) { return function(value); }

__attribute__((cold)) KEEP static void complain(const char* text) { fprintf(stderr, "not a digit: %s\n", text); }

KEEP int parse_digit(const char* text) {
  if (text[0] < '0' || text[0] > '9') {  // gcc moves this to parse_digit.cold
    complain(text);
    abort();
  }
  return text[0] - '0';
}

KEEP void nothing(void) { total_calls++; }

static void round_of_calls(int i) {
  struct point p = {i, 2, 0.5};
  struct rect r = {{0, 0, 0}, {i, 4, 0}, BLUE};
  struct flags f = {1, 5, -3, 1UL << 39};
  struct record rec = {"record", {80, 443, 8080, 0}, &p, {7}, f};
  struct node second = {2, NULL}, first = {1, &second};
  int values[] = {1, 2, 3};
  say("CALL add a=%d b=2 = %d\n", i, add(i, 2));
  say("CALL mix = %ld\n", mix('A', -2, i, 1L << 40, 200, 5, 1));
  say("CALL scale x=1.5 y=2 n=%d = %g\n", i, scale(1.5, 2, i));
  say("CALL greet name=world times=%d = %s\n", i, greet("world", i));
  say("CALL move_point x=%d y=2 dx=1 dy=-1 = %d\n", i, move_point(&p, 1, -1));
  say("CALL make_point = %g\n", make_point(i, 3, 0.25).z);
  say("CALL area_of = %g\n", area_of(r));
  say("CALL check_flags = %d\n", check_flags(&f));
  say("CALL use_record = %d\n", use_record(&rec, GREEN));
  say("CALL many = %d\n", many(1, 2, 3, 4, 5, 6, 7, 8, 9));
  say("CALL list_length = %d\n", list_length(&first));
  say("CALL fib n=5 = %d\n", fib(5));
  say("CALL hidden_sum = %d\n", hidden_sum(values, 3));
  say("CALL limit value=%d = %d\n", i, limit(i));
  say("CALL apply = %d\n", apply(twice, i));
  say("CALL parse_digit = %d\n", parse_digit("7"));
  nothing();
  say("CALL nothing\n");
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
