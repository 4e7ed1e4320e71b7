// A program in which other code comes to lie where code was before. What it does is named by its arguments, one
// after the other:
//   calls N       N calls of work(), each printed
//   work          calls work() from a function whose name the build chooses
//   exec FILE …   executes a program with the remaining arguments
//   open FILE     dlopen, and a call of work() through the library
//   close         dlclose of the last one
//   copy FROM TO  writes a file's bytes into another that is there
//   jit NAME      writes a function into memory, always to the same place, names it in the perf map and calls work() through it
//   sleep MS      does nothing
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

#ifndef CALLER
#define CALLER first_caller
#endif

static char map_name[64];

NOINLINE void work(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop" ::: "memory"); }

NOINLINE void CALLER(void) {
  work();
  __asm__ volatile("" ::: "memory");
}

#ifndef NO_LIBRARIES
static void* library;

static int through_library(const char* file) {
  library = dlopen(file, RTLD_NOW);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 0;
  void (**entry)(void (*)(void)) = dlsym(library, "entry");
  (*entry)(work);
  return 1;
}
#endif

static int through_memory(const char* name) {
  static unsigned char* place;
  static FILE* map;
  // push rbp; mov rbp, rsp; call rdi; pop rbp; ret
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  if (place == NULL) {
    place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    snprintf(map_name, sizeof map_name, "/tmp/perf-%d.map", getpid());
    map = fopen(map_name, "w");
    if (place == MAP_FAILED || map == NULL) return 0;
    memcpy(place, code, sizeof code);
  }
  fprintf(map, "%lx 40 %s\n", (unsigned long)place, name);
  fflush(map);
  ((void (*)(void (*)(void)))place)(work);
  return 1;
}

static int copy(const char* from, const char* to) {
  FILE *source = fopen(from, "r"), *target = fopen(to, "w");
  if (source == NULL || target == NULL) return 0;
  for (int byte; (byte = fgetc(source)) != EOF;) fputc(byte, target);
  fclose(source);
  return fclose(target) == 0;
}

int main(int count, char** words) {
  int is_right = 1;
  for (int i = 1; i < count && is_right; i++) {
    const char* next = i + 1 < count ? words[i + 1] : "";
    if (strcmp(words[i], "work") == 0) {
      CALLER();
      continue;
    }
#ifndef NO_LIBRARIES
    if (strcmp(words[i], "close") == 0) {
      dlclose(library);
      continue;
    }
    if (strcmp(words[i], "open") == 0) is_right = through_library(next);
#endif
    if (strcmp(words[i], "copy") == 0) is_right = copy(next, words[i++ + 2]);
    if (strcmp(words[i], "calls") == 0)
      for (int call = 0; call < atoi(next); call++) printf("CALL work\n"), CALLER();
    if (strcmp(words[i], "sleep") == 0) usleep((unsigned)atoi(next) * 1000);
    if (strcmp(words[i], "exec") == 0) execv(next, words + i + 1);
    if (strcmp(words[i], "jit") == 0) is_right = through_memory(next);
    i++;
  }
  if (map_name[0] != '\0') unlink(map_name);
  return is_right ? 0 : 1;
}
