// What the registers of a piece of eBPF code are known to hold, and which of its instructions nobody needs.
// Lets the translator serve a lookup in place, make plain additions of atomic ones on the thread's own
// memory, and leave out what only prepared a call that is no longer made. Knows nothing of x86.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/program.h"
#include "engine/inproc/code/code_facts.h"

namespace uscope::engine::inproc {

struct Known {
  enum Kind : uint8_t { Unset, Anything, Number, Map, OwnValue, Frame } kind = Unset;
  uint32_t map = 0;
  int64_t number = 0;  // Number: its value; Frame: the offset from R10
  friend bool operator==(const Known&, const Known&) = default;
};
using KnownRegisters = std::array<Known, 11>;

class ValueFlow {
 public:
  ValueFlow(const codegen::Code& code, const codegen::Program& program, const CodeFacts& facts);

  // Before the instruction.
  const Known& before(uint32_t at, uint32_t reg) const { return states_[at][reg]; }

  // A lookup whose map is known and whose key lies in the frame.
  bool is_known_lookup(uint32_t at) const;
  // An atomic operation on memory that only this thread writes to.
  bool is_on_own_memory(uint32_t at) const;
  // Such an addition of a known number, whose register is not looked at.
  bool adds_number(uint32_t at) const;
  // Its result is never read and it does nothing else.
  bool is_needless(uint32_t at) const { return needless_[at]; }
  // A lookup right behind the reading of a text into cleared memory: nothing was stored in between.
  bool looks_up_text(uint32_t at) const;
  // The generator's search for the highest bit of R0, by halves and without branches, begins here: R0 is
  // shifted right until that bit is bit `low`, R2 says how far, R1 is the last step's. Nothing jumps into it.
  struct BitSearch {
    uint32_t length = 0;  // instructions
    uint32_t low = 0;
  };
  std::optional<BitSearch> bit_search_at(uint32_t at) const;

  // What can run next as long as every known lookup finds something.
  std::vector<uint32_t> usual_successors(uint32_t at) const;
  // Where a known lookup's answer is tested right behind it: 1 jumps when found, -1 when not; else 0.
  int tests_lookup(uint32_t at) const;

 private:
  void follow();
  void step(uint32_t at, KnownRegisters& state) const;
  void find_needless();
  std::vector<uint32_t> successors(uint32_t at) const;
  uint32_t reads(uint32_t at) const;   // registers, as bits
  uint32_t writes(uint32_t at) const;  // wholly
  bool is_per_cpu(uint32_t map) const;
  // The helper call that straight code without stores has made before `at`.
  std::optional<uint32_t> call_before(uint32_t at) const;

  const std::vector<bpf_insn>& all_;
  const codegen::Program& program_;
  const CodeFacts& facts_;
  std::vector<KnownRegisters> states_;
  std::vector<bool> needless_, reached_, jumped_to_;
};

}  // namespace uscope::engine::inproc
