// A library whose constructor works before its program's first instruction.
static int prepared;

__attribute__((noipa)) int early_prepare(int amount) {
  prepared += amount;
  return prepared * 2;
}

__attribute__((constructor)) static void begin(void) { early_prepare(41); }
