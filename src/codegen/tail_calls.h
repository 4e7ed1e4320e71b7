// Return probes where a function ends in a jump to another (a tail call). The other function returns in its
// place, to the same caller and with the stack pointer where the jump left it; so the jump leaves a mark for
// the thread and the stack pointer, the other function's entry takes it up, and its exits run the probe's
// code only for a call that is marked. Makes the small codes that do this and puts them into the Program.
//
// A call that is abandoned (by an exception, or longjmp) leaves its mark behind. It does no harm: an entry
// that finds a mark already taken up is another call, and drops it.
//
// Does not know functions or sites: the session decides where each code goes. All sites of one probed call
// share a cookie, which is part of the mark. Not for Go, which moves stacks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/result.h"
#include "codegen/program.h"

namespace uscope::codegen {

// As x86 numbers the conditions of its jumps; nothing: always taken.
using JumpCondition = std::optional<uint8_t>;

class TailCalls {
 public:
  explicit TailCalls(Program& program) : program_(program) {}

  // All of these are indexes into Program::codes, made once for each question.
  // At the function's jump: leaves a mark, if the jump is taken.
  Result<uint32_t> leave_mark(JumpCondition condition);
  // At the entry of the function that it leads to.
  Result<uint32_t> take_up();
  // Where that function itself ends in a jump: the mark is for the next one.
  Result<uint32_t> pass_on(JumpCondition condition);
  // At its other exits: runs `code` if the call is marked, and ends the mark.
  Result<uint32_t> finish(uint32_t code);

  // `code`, only if the jump is taken.
  Result<uint32_t> only_if(uint32_t code, JumpCondition condition);
  // Counts the jumps taken in the map unreported().
  Result<uint32_t> count(JumpCondition condition);
  // A PerCpuArray of one u64; nothing if no code counts.
  std::optional<uint32_t> unreported() const { return unreported_; }

 private:
  enum class Part { LeaveMark, TakeUp, PassOn, Finish, OnlyIf, Count };
  struct Question {
    Part part;
    uint32_t code;       // UINT32_MAX: none
    uint32_t condition;  // 16: always
    auto operator<=>(const Question&) const = default;
  };

  Result<uint32_t> made(Part part, std::optional<uint32_t> code, JumpCondition condition);
  uint32_t marks();

  Program& program_;
  std::optional<uint32_t> marks_, unreported_;
  std::map<Question, uint32_t> made_;
};

}  // namespace uscope::codegen
