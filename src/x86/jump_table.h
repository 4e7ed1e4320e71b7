// Where an indirect jump goes: follows its operand back to a switch table as gcc, clang, rustc and Go lay
// them out, and reads the table. Three shapes:
//   offsets    lea table(%rip),%rT; movslq (%rT,%rI,4),%rX; add %rT,%rX; jmp *%rX      position-independent
//   C, C++, Rust
//              (also with a base other than the table: computed gotos such as printf's)
//   addresses  jmp *table(,%rI,8), or through a register                              position-dependent code
//              lea table(%rip),%rT; jmp *(%rT,%rI,8)                                  Go, computed gotos
//   pointer    anything that is loaded, passed or returned as a plain pointer         tail calls
// Internal to this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "x86/definitions.h"
#include "x86/graph.h"

namespace uscope::x86 {

struct JumpTargets {
  std::vector<uint64_t> inside;   // places in the function
  std::vector<JumpTable> tables;  // the tables they were read from
  bool pointer = false;           // can be a plain pointer: a tail call
  bool computed = false;  // can be a value that no switch makes: a method pointer, an element of an array
  bool unknown = false;   // can be something that was not understood
  bool leaves = false;    // a table has entries outside of the function
};

// What the code says about a table's index before it uses it.
struct IndexBound {
  std::optional<uint32_t> exactly;  // checked: there are so many entries
  std::optional<uint32_t>
      at_most;  // masked: there may be fewer when the compiler knows that some values never occur
};

class JumpResolver {
 public:
  JumpResolver(Graph& graph, const FunctionCode& code) : graph_(graph), definitions_(graph), code_(code) {}

  JumpTargets resolve(const Instruction& jump);
  // The work that one function is worth is done: what was resolved last may be missing targets.
  bool exhausted() const { return entries_left_ == 0 || jumps_left_ == 0; }

 private:
  struct TableShape {
    uint64_t address;
    std::optional<uint64_t> base;  // entries are offsets from it; none: they are addresses
    IndexBound bound;
  };
  struct Load {
    const Instruction* instruction;
    Operand memory;
  };
  void resolve_register(uint64_t at, Register reg, unsigned depth);
  void resolve_memory(const Instruction& load, const Operand& memory);
  void resolve_sum(const Instruction& sum, const Operands& operands);
  std::vector<Load> offset_loads(uint64_t at, Register reg, unsigned depth = 0);
  void read_offset_tables(const Load& load, const std::vector<uint64_t>& bases, Register base_register);
  bool read_table(const TableShape& shape);
  std::optional<uint64_t> read_entry(const TableShape& shape, uint32_t number);
  bool is_end_of_part(uint64_t address) const;
  // The addresses outside of the function that a lea in it yields: what an unknown table register may hold.
  const std::vector<uint64_t>& addresses_taken();
  // How many entries the code's own check of the index allows.
  IndexBound index_bound(const Instruction& load, Register index);

  Graph& graph_;
  DefinitionFinder definitions_;
  const FunctionCode& code_;
  const Instruction* jump_ = nullptr;
  JumpTargets targets_;
  std::vector<uint64_t> addresses_taken_;
  size_t addresses_taken_of_ = 0;  // how many instructions the graph had then
  // The largest switches seen have some thousand entries, the largest interpreters some hundred jumps.
  uint32_t entries_left_ = 2'000'000;
  uint32_t jumps_left_ = 20'000;
};

}  // namespace uscope::x86
