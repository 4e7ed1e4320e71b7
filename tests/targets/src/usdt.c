// Static probes: with and without a semaphore, with 0 to 6 arguments of several widths, one of them in two places.
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "driver.h"

#define SEMAPHORE(name) __attribute__((used, section(".probes"))) unsigned short name
SEMAPHORE(shop_order_semaphore);
SEMAPHORE(shop_empty_semaphore);
SEMAPHORE(shop_many_semaphore);
SEMAPHORE(bank_transfer_semaphore);

KEEP int order(int id, const char* item, double price) {
  if (shop_order_semaphore) say("TRACED order %d\n", id);
  STAP_PROBE3(shop, order, id, item, (long)(price * 100));
  return id + 1;
}

KEEP void transfer(unsigned char kind, short amount, long to) {
  STAP_PROBE3(bank, transfer, kind, amount, to);
  if (kind > 100) STAP_PROBE3(bank, transfer, kind, (short)-amount, to);
}

static void round_of_calls(int i) {
  say("CALL order id=%d item=tea = %d\n", i, order(i, "tea", 2.5));
  STAP_PROBE(shop, empty);
  STAP_PROBE6(shop, many, (char)1, (short)2, 3, 4L, (unsigned)5, 6UL);
  transfer((unsigned char)i, -5, 1L << 40);
  say("CALL transfer kind=%d\n", i & 255);
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
