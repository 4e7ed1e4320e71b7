// Where a register's value comes from: the instructions that can have written it last, found by walking
// backwards through a function's graph. Internal to this folder.
#pragma once

#include <optional>
#include <vector>

#include "x86/graph.h"

namespace uscope::x86 {

struct Definitions {
  std::vector<const Instruction*> found;
  // Some path leads back to the entry, a landing pad or the like without a write: the value may be the
  // caller's.
  bool from_outside = false;
  // The search was cut short: there may be more.
  bool cut = false;
};

// Answers for one graph; shares a budget over all questions, so that hostile code cannot make it work
// forever.
class DefinitionFinder {
 public:
  explicit DefinitionFinder(Graph& graph) : graph_(graph) {}

  // Who wrote the register that the instruction at this address reads. A call writes what the System V
  // convention does not keep.
  Definitions definitions(uint64_t address, Register reg);
  // Every constant that the register can hold there. complete: it can hold nothing else.
  struct Constants {
    std::vector<uint64_t> values;
    bool complete = true;
  };
  Constants constants(uint64_t address, Register reg, unsigned depth = 0);

 private:
  bool writes(const Instruction& instruction, Register reg) const;
  Graph& graph_;
  unsigned budget_ = 300'000;
};

// What a rip-relative lea or a mov of an immediate yields, if the instruction is one.
std::optional<uint64_t> constant_of(const Instruction& instruction, const Operands& operands);

}  // namespace uscope::x86
