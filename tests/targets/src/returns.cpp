// Ways to leave a function: returns, jumps to other functions, exceptions that pass through or are caught,
// longjmp, recursion.
#include <setjmp.h>

#include <stdexcept>

#include "driver.h"

// Every third call throws.
KEEP int risky(int i) {
  if (i % 3 == 2) throw std::runtime_error("third");
  return i + 1;
}

// The exception passes through.
KEEP int passes(int i) {
  int result = risky(i);
  return result * 2;
}

// And ends here: -5, from the part that the compiler calls cold.
KEEP int catches(int i) {
  try {
    return passes(i) + 1;
  } catch (const std::exception& error) {
    return -(int)strlen(error.what());
  }
}

KEEP int doubled(int i) { return (int)(2u * (unsigned)i); }
KEEP int tail(int i) { return doubled(i + 100); }       // jmp doubled
KEEP int chained(int i) { return tail(i + 1000); }      // jmp tail, jmp doubled
KEEP int sometimes(int i) {                             // jmp doubled, or a return
  if (i & 1) return doubled(i);
  return 7;
}
KEEP int risky_tail(int i) { return risky(i + 30); }    // jmp risky, which may throw

struct Shape {
  virtual ~Shape() = default;
  virtual int sides(int factor) { return factor; }
};
struct Square : Shape {
  int sides(int factor) override { return 4 * factor; }
};
KEEP int by_table(Shape* shape, int i) { return shape->sides(i + 1); }  // jmp *16(%rax)

KEEP long factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

static jmp_buf back;
KEEP int abandons(int i) {
  if (i & 1) longjmp(back, i);
  return i + 5;
}
KEEP int abandoned(int i) { return abandons(i) + 1; }

static int guarded(int (*function)(int), int i) {
  try {
    return function(i);
  } catch (const std::exception&) {
    return -1;
  }
}

// Leave by a conditional jump to doubled, or return -1. The compiler seldom does; assembler always may.
#define WHEN(condition)                                                                                       \
  asm(".text\n.globl when_" #condition "\n.type when_" #condition ", @function\nwhen_" #condition               \
      ":\n cmp %esi, %edi\n j" #condition " _Z7doubledi\n mov $-1, %eax\n ret\n.size when_" #condition ", .-when_" \
      #condition "\n");                                                                                       \
  extern "C" int when_##condition(int a, int b);
#define EACH_CONDITION(DO) \
  DO(o) DO(no) DO(b) DO(ae) DO(e) DO(ne) DO(be) DO(a) DO(s) DO(ns) DO(p) DO(np) DO(l) DO(ge) DO(le) DO(g)
EACH_CONDITION(WHEN)

// Never called: jumps with its frame still on the stack, who knows where.
asm(".text\n.globl goes_anywhere\n.type goes_anywhere, @function\ngoes_anywhere:\n push %rbx\n jmp *%rdi\n"
    ".size goes_anywhere, .-goes_anywhere\n");

static void conditions() {
  const int numbers[] = {0, 1, 2, -1, 3, 0x7fffffff, -0x7fffffff - 1};
#define TRY_IT(condition) say("CALL when_" #condition " = %d\n", when_##condition(a, b));
  for (int a : numbers)
    for (int b : numbers) {
      EACH_CONDITION(TRY_IT)
    }
}

static void play(int i) {
  Square square;
  say("CALL catches %d = %d\n", i, catches(i));
  say("CALL tail %d = %d\n", i, tail(i));
  say("CALL chained %d = %d\n", i, chained(i));
  say("CALL sometimes %d = %d\n", i, sometimes(i));
  say("CALL doubled %d = %d\n", i, doubled(i));
  // One call site, two functions: what the first leaves behind when it throws must not be taken for the second.
  for (auto* each : {risky_tail, risky}) say("CALL guarded %d = %d\n", i, guarded(each, i));
  say("CALL by_table %d = %d\n", i, by_table(&square, i));
  say("CALL factorial %d = %ld\n", i % 8, factorial(i % 8));
  int came = setjmp(back);
  say("CALL abandoned %d = %d\n", i, came ? -came : abandoned(i));
}

//   TARGET conditions         each function that leaves by a conditional jump, with CALL lines
int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "conditions")) return conditions(), 0;
  return drive(argc, argv, play);
}
