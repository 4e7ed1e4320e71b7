// A gate for loads that may fail (process/load_gate.h) on kernels that have none: a handler of SIGSEGV does
// what the kernel would do for the load in its vDSO. Good enough for a test, whose program has no handlers of
// its own.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

namespace uscope::engine::inproc {

extern "C" const uint8_t uscope_test_gate_load[], uscope_test_gate_landing[];

class EmulatedGate {
 public:
  EmulatedGate() {
    struct sigaction ours {};
    ours.sa_sigaction = &lead_on;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &ours, &before_[0]);
    sigaction(SIGBUS, &ours, &before_[1]);
  }
  EmulatedGate(const EmulatedGate&) = delete;
  ~EmulatedGate() {
    sigaction(SIGSEGV, &before_[0], nullptr);
    sigaction(SIGBUS, &before_[1], nullptr);
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(uscope_test_gate_load); }
  static inline uint64_t faults = 0;

 private:
  static void lead_on(int signal, siginfo_t*, void* context) {
    auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    if (registers[REG_RIP] != int64_t(uscope_test_gate_load)) {
      ::signal(signal, SIG_DFL);
      return;
    }
    faults++;
    registers[REG_RIP] = int64_t(uscope_test_gate_landing);
    registers[REG_RDI] = 14;
    registers[REG_RSI] = registers[REG_RDX] = int64_t(0x5555555555555555);
  }
  struct sigaction before_[2] = {};
};

}  // namespace uscope::engine::inproc
