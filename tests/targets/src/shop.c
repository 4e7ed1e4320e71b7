/* A busy program that says how fast it goes: orders a second, five times a second. Prices an order after the other, by name. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define KEEP __attribute__((noipa))

static const char* const items[] = {"bread", "butter", "coffee", "a hundred grams of saffron", "milk"};

KEEP uint64_t hash_of(const char* text) {
  uint64_t hash = 14695981039346656037u;
  for (int round = 0; round < 8; round++)
    for (const char* c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
  return hash;
}

KEEP int price(const char* item, int quantity) { return (int)(hash_of(item) % 900 + 100) * quantity; }

KEEP int order(unsigned number) { return price(items[number % 5], 1 + (int)(number % 7)); }

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void) {
  printf("READY\n");
  fflush(stdout);
  uint64_t turnover = 0;
  unsigned number = 0, before = 0;
  for (double last = seconds();;) {
    for (int i = 0; i < 100; i++) turnover += (uint64_t)order(number++);
    double now = seconds();
    if (now - last < 0.2) continue;
    printf("%.0f\n", (number - before) / (now - last));
    fflush(stdout);
    last = now;
    before = number;
    if (turnover == 0) return 1;
  }
}
