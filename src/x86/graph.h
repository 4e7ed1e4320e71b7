// The reachable instructions of a function while they are being found, with the edges between them. Built by
// flow.cpp, read by the questions asked of it: where a register's value comes from, how deep the stack is.
// Internal to this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "x86/effects.h"
#include "x86/flow.h"

namespace uscope::x86 {

class Graph {
 public:
  explicit Graph(std::vector<CodeRange> parts);

  void add_part(const CodeRange& part);
  const std::vector<CodeRange>& parts() const { return parts_; }
  const CodeRange* part_of(uint64_t address) const;
  bool contains(uint64_t address) const { return part_of(address) != nullptr; }
  uint64_t entry() const { return parts_.front().address; }
  uint64_t size() const;

  void add(const Instruction& instruction);
  // Says that control goes from one instruction to an address other than the next.
  void add_edge(uint64_t from, uint64_t to);
  const Instruction* at(uint64_t address) const;
  const std::vector<Instruction>& instructions() const { return instructions_; }
  size_t index_of(const Instruction& i) const { return size_t(&i - instructions_.data()); }
  // A known instruction that begins before the address and ends behind it.
  const Instruction* straddling(uint64_t address) const;
  // No known instruction covers any of these bytes.
  bool is_free(uint64_t address, uint64_t length) const;
  // The instruction that ends at the address and goes on there.
  const Instruction* falling_into(uint64_t address) const;
  // Whether a plain sweep from the part's start finds an instruction's start here.
  bool is_linear_start(uint64_t address);

  Bytes bytes_of(const Instruction& instruction) const;
  // Calls visit(const Instruction&) for each instruction that control can come from.
  template <typename Visit>
  void for_each_predecessor(uint64_t address, Visit visit);
  template <typename Visit>
  void for_each_successor(const Instruction& instruction, Visit visit) const;

 private:
  static constexpr uint32_t inside = UINT32_MAX;
  void sort_edges();
  std::vector<CodeRange> parts_;
  std::vector<std::vector<uint32_t>>
      index_;  // per part and byte: 1 + the number of the instruction beginning there
  std::vector<std::vector<bool>> linear_;  // per part, filled when first asked for
  std::vector<Instruction> instructions_;
  std::vector<std::pair<uint64_t, uint64_t>> edges_;  // target, source; sorted up to sorted_edges_
  size_t sorted_edges_ = 0;
  std::unordered_map<uint64_t, std::vector<uint64_t>> indirect_targets_;
};

template <typename Visit>
void Graph::for_each_predecessor(uint64_t address, Visit visit) {
  for (unsigned back = 1; back <= max_instruction_length; ++back) {
    const Instruction* before = at(address - back);
    if (before && before->end() == address && before->falls_through()) visit(*before);
  }
  sort_edges();
  auto edge = std::lower_bound(edges_.begin(), edges_.end(), std::pair(address, uint64_t(0)));
  for (; edge != edges_.end() && edge->first == address; ++edge) {
    if (const Instruction* source = at(edge->second)) visit(*source);
  }
}

template <typename Visit>
void Graph::for_each_successor(const Instruction& instruction, Visit visit) const {
  if (instruction.falls_through()) {
    if (const Instruction* next = at(instruction.end())) visit(*next);
  }
  if (instruction.is_direct_branch()) {
    if (const Instruction* target = at(instruction.target)) visit(*target);
  }
  if (auto found = indirect_targets_.find(instruction.address); found != indirect_targets_.end()) {
    for (uint64_t address : found->second) {
      if (const Instruction* target = at(address)) visit(*target);
    }
  }
}

}  // namespace uscope::x86
