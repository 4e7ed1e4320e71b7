// Memory that comes and goes while it is looked at: pages that another thread maps and unmaps, protects and gives back,
// and a file that is cut short and grows again, all with every signal blocked: a fault would end the program.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

enum { kPage = 4096, kPages = 4, kLooks = 2000 };
static char *taken_away, *file_page;
static int file;
static atomic_int done;

// What a tracer reads: `text`, which may be there or not.
KEEP int look_at(const char* text) { return text == NULL; }

static void* take_away(void* unused) {
  while (!atomic_load(&done)) {
    for (int i = 0; i < kPages; i++) {
      char* page = taken_away + i * kPage;
      mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      strcpy(page + kPage - 8, "here");
    }
    if (ftruncate(file, kPage) == 0 && pwrite(file, "here", 5, kPage - 8) < 0) break;
    for (int i = 0; i < kPages; i++) {
      char* page = taken_away + i * kPage;
      if (i % 2 == 0) mprotect(page, kPage, PROT_NONE);
      if (i % 2 == 1) mmap(page, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    }
    if (ftruncate(file, 0) != 0) break;
  }
  return unused;
}

static void round_of_calls(int i) {
  (void)i;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  pthread_t thread;
  atomic_store(&done, 0);
  pthread_create(&thread, NULL, take_away, NULL);
  for (int n = 0; n < kLooks; n++) {
    look_at(taken_away + (n % kPages + 1) * kPage - 8);
    look_at(file_page + kPage - 8);
  }
  atomic_store(&done, 1);
  pthread_join(thread, NULL);
  say("CALL look_at %d\n", 2 * kLooks);
}

int main(int argc, char** argv) {
  taken_away = mmap(NULL, kPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  file = memfd_create("vanishing", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kPage) != 0) return 1;
  file_page = mmap(NULL, kPage, PROT_READ, MAP_SHARED, file, 0);
  return drive(argc, argv, round_of_calls);
}
