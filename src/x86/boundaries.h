// Is there an instruction at this address? The kernel takes a probe in the middle of one, and the target then
// crashes; so every offset a user gives is asked about here first, and only a certain yes is good enough.
// What execution is known to reach is certain. For the rest a sweep from the function's start decides, as
// long as it never contradicts itself; in a function with data among its code (hand-written assembly) it
// does, and the answer there is that nobody can know. Refers to the bytes it was made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "x86/flow.h"

namespace uscope::x86 {

struct Boundary {
  enum class Answer : uint8_t {
    start,    // an instruction begins here
    inside,   // one that began earlier goes on here
    unknown,  // data, undecodable bytes, or code that only data leads to
    outside,  // not in the function
  };
  Answer answer = Answer::unknown;
  Instruction instruction;  // start: the one here; inside: the one around

  bool is_start() const { return answer == Answer::start; }
  // "0x1295 is inside the 7-byte instruction at 0x1290".
  std::string text(uint64_t address) const;
};

class Boundaries {
 public:
  explicit Boundaries(const FunctionCode& code);

  Boundary at(uint64_t address) const;
  const Flow& flow() const { return flow_; }

 private:
  struct Sweep {
    CodeRange part;
    std::vector<uint32_t> starts;  // offsets, ascending
    bool consistent = true;
  };
  static Sweep sweep(const CodeRange& part, const Flow& flow);
  Flow flow_;
  std::vector<Sweep> sweeps_;
};

}  // namespace uscope::x86
