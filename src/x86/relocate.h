// Copies a run of instructions to another address so that they do the same there: rip-relative operands and
// branches are corrected, short branches widened. What cannot be moved is refused, with the reason. A call in
// the copy can push the original return address, so that unwinders, Go's tracebacks and C++ exceptions see
// only addresses they know; execution then continues in the original code. (On a processor with a user shadow
// stack in force such a call would trap; Linux turns that on only for programs that ask.)
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "x86/flow.h"

namespace uscope::x86 {

enum class CallStyle : uint8_t {
  return_to_original,  // the callee sees the original return address and returns there
  return_to_copy,      // a real call: the callee returns into the copy
};

struct RelocateOptions {
  CallStyle calls = CallStyle::return_to_original;
  // A branch from the run to the run's first instruction: stay in the copy, or go to the original address,
  // where a patch waits that counts the pass.
  bool start_stays_in_copy = false;
};

struct Relocated {
  std::vector<uint8_t> bytes;
  // Where each instruction went, ascending; offsets from the run's and the copy's start. A thread whose PC is
  // at `original` can go on at `copy`.
  struct Place {
    uint32_t original;
    uint32_t copy;
  };
  std::vector<Place> places;
  // Execution can run out of the copy's end: a jump back to the run's end belongs there.
  bool falls_through = true;

  std::optional<uint32_t> copy_of(uint32_t original) const;
  // The instruction of the run that a place in the copy belongs to, for a thread that is found in the copy.
  std::optional<uint32_t> original_of(uint32_t copy) const;
};

struct MoveRefusal {
  enum class Reason : uint8_t {
    undecodable,       // bytes that are no instruction, or one cut off by the run's end
    unusual,           // far transfers, eip-relative operands, calls through rsp
    operand_too_far,   // a rip-relative operand is out of reach of the copy
    returns_into_run,  // a call that is not last: it would return into the middle of the patched bytes
    splits,            // a branch into the middle of an instruction of the run
    too_large,
  };
  Reason reason = Reason::undecodable;
  uint64_t address = 0;

  std::string text() const;
};

std::expected<Relocated, MoveRefusal> relocate(const CodeRange& run, uint64_t to,
                                               const RelocateOptions& options = {});

}  // namespace uscope::x86
