// Faults that become exceptions: the handler of SIGSEGV throws, and what is compiled with -fnon-call-exceptions
// catches that at the very load. Ends with status 1 if one is not caught.
#include <signal.h>

#include "driver.h"

struct Fault {};
struct Missing {};

struct Box {
  int size, value;
};

static volatile int touched;

KEEP void touch() { touched = touched + 1; }

// The load that may throw is right before the end.
extern "C" KEEP int get(const Box* box) {
  touch();
  try {
    return box->value;
  } catch (const Fault&) {
    throw Missing();
  }
}

static void on_fault(int) { throw Fault(); }

static int try_get(const Box* box) {
  try {
    return get(box);
  } catch (const Missing&) {
    return -1;
  }
}

static void play(int i) {
  Box box = {1, i};
  const int fine = try_get(&box), caught = try_get(nullptr);
  say("CALL get %d = %d\nCALL get null = %d\n", i, fine, caught);
  if (fine != i || caught != -1) exit(1);
}

int main(int argc, char** argv) {
  struct sigaction action = {};
  action.sa_handler = on_fault;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  return drive(argc, argv, play);
}
