#include <malloc.h>

#include "cli/cli.h"

int main(int argc, char** argv) {
  // uscope ends soon, or waits: handing memory back between two steps only means being given it anew.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  ::mallopt(M_TOP_PAD, 1 << 20);
  return uscope::cli::main(argc, argv);
}
