// Where a thread that is inside a signal handler will go on when the handler returns. The kernel keeps that
// address on the thread's own stack, in the frame it built for the handler; there may be several, one above
// the other. Found by their shape: the saved segment registers of 64-bit code, and a return address that
// leads to code which makes the rt_sigreturn call. The process must be stopped. Copies of such frames that a
// program keeps elsewhere are not found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "engine/inproc/target/patch.h"
#include "process/maps.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

// The stack pointer that belongs to a saved program counter.
std::optional<ProcessAddr> saved_stack_pointer(const process::RemoteMemory& memory, ProcessAddr kept_at);

class SignalFrames {
 public:
  // `maps`: what the process has mapped now.
  SignalFrames(const process::RemoteMemory& memory, const process::Maps& maps)
      : memory_(memory), maps_(maps) {}

  // Every saved program counter from a stack pointer upwards: where it is kept, and what it is.
  void visit(ProcessAddr stack_pointer,
             const std::function<void(ProcessAddr kept_at, ProcessAddr saved)>& found);

 private:
  bool is_restorer(ProcessAddr address);

  const process::RemoteMemory& memory_;
  const process::Maps& maps_;
  std::unordered_map<ProcessAddr, bool> restorers_;
  std::vector<uint8_t> stack_;
};

}  // namespace uscope::engine::inproc
