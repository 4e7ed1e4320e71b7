// How far the stack pointer is from where it was at a function's entry, at each instruction. Tells tail calls
// (the frame is gone) from jumps inside the function. Internal to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "x86/graph.h"

namespace uscope::x86 {

class StackDepths {
 public:
  explicit StackDepths(const Graph& graph);

  // rsp at the instruction minus rsp at the entry; nothing where the code does not show it.
  std::optional<int64_t> at(const Instruction& instruction) const;

 private:
  const Graph& graph_;
  std::vector<std::optional<int64_t>> depths_;  // by the instruction's number in the graph
};

// What one instruction does to rsp when that is a constant: push, pop, sub, add, lea, endbr64 and all that
// leave it alone.
std::optional<int64_t> stack_change(Bytes instruction);

}  // namespace uscope::x86
