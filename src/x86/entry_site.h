// Where the kernel engine best puts an entry probe. A uprobe costs 260 to 12,300 ns depending on the
// instruction it stands on, and often one of the next instructions sees the same call with the same arguments
// for a twentieth of the price. Only sites that every call passes exactly once, with the argument registers
// as they came, are equivalent.
#pragma once

#include <cstdint>
#include <optional>

#include "x86/flow.h"
#include "x86/registers.h"

namespace uscope::x86 {

// What the kernel's uprobes do with an instruction (arch/x86/kernel/uprobes.c), cheapest first.
enum class KernelHandling : uint8_t {
  optimised,       // 5-byte nop inside one page: no trap since Linux 6.18, before that as nop_by_version
  emulated,        // one-byte nops, push of a register, near jumps, jcc and calls
  nop_by_version,  // longer nops: emulated since Linux 6.18, before that single-stepped
  single_stepped,  // executed out of line, with a second trap
  refused,  // the kernel does not take a probe here (lock and most segment prefixes, int3, syscall, hlt …)
};

KernelHandling kernel_handling(Bytes instruction, uint64_t address);

struct EntrySite {
  uint64_t address = 0;
  // Add this to rsp at the site to get rsp at the entry: 8 behind one push.
  int64_t stack_adjustment = 0;
  KernelHandling handling = KernelHandling::single_stepped;
  // Registers that no longer hold what they held at the entry; never one of those to keep, nor rsp.
  RegisterSet changed = 0;
  bool after_go_stack_check = false;
};

struct EntryRequest {
  RegisterSet keep = system_v_argument_registers;
  // Look for Go's stack check and stay behind it.
  bool go = false;
  // Only where rsp, and all registers but those that Go's stack check spends, are as they came.
  bool exact = false;
  // The kernel knows 5-byte nops and emulates long ones (6.18 and later).
  bool new_nops = false;
};

// The cheapest site equivalent to the entry; the entry itself (behind Go's stack check) when there is none
// better.
EntrySite cheapest_entry_site(const Flow& flow, const EntryRequest& request = {});

}  // namespace uscope::x86
