// A library that comes to lie where another was; the build chooses its function's name.
__attribute__((noinline)) static void THROUGH(void (*work)(void)) {
  work();
  __asm__ volatile("" ::: "memory");
}

void (*entry)(void (*)(void)) = THROUGH;
