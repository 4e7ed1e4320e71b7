// A small piece of code in front of another: decides whether the other one runs at all, or leaves something
// on the stack for it. What session adds to a compiled program (tail calls, pairing) is made of these.
#pragma once

#include "base/result.h"
#include "codegen/assembler.h"
#include "codegen/program.h"

namespace uscope::codegen {

class Gate {
 public:
  // R6 is the context from here on, and R0 to R5 and R7 are free.
  Gate() { asm_.mov(Reg::R6, Reg::R1); }

  // R0 = the map's value at the key that lies at R10 + key; to `missing` if it has none.
  void lookup(uint32_t map, int32_t key, Assembler::Label missing);
  void remove(uint32_t map, int32_t key);
  void update(uint32_t map, int32_t key, int32_t value);
  // Counts in a PerCpuArray of u64. R10 + room is used as its key.
  void count(uint32_t map, uint32_t index, int32_t room);

  // What falls through runs `then`, or nothing if it is null; what jumps to out() ends.
  Result<Code> finish(const Code* then) &&;
  Assembler::Label out() const { return out_; }

 protected:
  Assembler asm_;

 private:
  Assembler::Label out_ = asm_.label();
};

}  // namespace uscope::codegen
