// A load that may fail. The kernel has one instruction in every process whose faults do not become signals:
// the ENCLU of the vDSO's entry to SGX enclaves. Whatever it faults on, execution goes on a little further in
// the vDSO, with the fault in registers; no handler, no signal mask and no other thread has a say in it.
// Where nobody can use enclaves, a process may have a load in its place. This finds out whether and where, by
// trying it in a child; it changes no other process. Kernels have it from 5.11 on, if built with
// CONFIG_X86_SGX.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace uscope::process {

// Offsets from the vDSO's start; the same in all 64-bit processes that this kernel runs.
struct LoadGate {
  static constexpr std::array<uint8_t, 4> load_code = {0x48, 0x8b, 0x06, 0xc3};  // mov rax, [rsi]; ret
  static constexpr std::array<uint8_t, 1> landing_code = {0xc3};                 // ret

  uint32_t load = 0;     // the one instruction
  uint32_t landing = 0;  // where it goes on after a fault: rdi is not 0; rsi and rdx are lost too
  std::array<uint8_t, 4> load_original{};
  std::array<uint8_t, 1> landing_original{};
};

// Nothing: the kernel has none, or enclaves may be in use on this machine. Some hundred microseconds where
// there is one, which the caller may want to spend only if it needs it.
std::optional<LoadGate> find_load_gate();

// A function of a vDSO, as offset and size. For find_load_gate() and its tests.
struct VdsoFunction {
  uint32_t offset = 0, size = 0;
};
std::optional<VdsoFunction> find_vdso_function(Bytes vdso, std::string_view name);

}  // namespace uscope::process
