// Functions of a unit: the concrete one at an address, its parameters, what is in scope at an instruction,
// and the copies inlined there. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "image/dwarf/entry_places.h"
#include "image/dwarf/frame.h"
#include "image/dwarf/type_reader.h"

namespace uscope::image::dwarf {

class FunctionReader {
 public:
  FunctionReader(const Store& store, TypeReader& types, const FrameTable& frames)
      : store_(store), types_(types), frames_(frames) {}

  // The concrete function whose ranges hold the address.
  Die find(const Unit& unit, uint64_t address) const;
  // with_parameters: also their places, which costs the most.
  Function read(const Die& die, bool with_parameters = true) const;
  std::vector<Variable> variables_at(const Die& function, uint64_t address) const;
  std::vector<Variable> parameters_at(const Die& function, uint64_t address) const;
  std::vector<Variable> globals_of(const Unit& unit) const;
  std::vector<InlinedCopy> inlined_at(const Die& function, uint64_t address) const;
  // Every inlined copy inside a function.
  void for_each_inlined(const Die& function, const std::function<bool(const Die&)>& visit) const;
  InlinedCopy read_inlined(const Die& inlined, const std::string& caller) const;

 private:
  std::vector<Variable> parameters_at_entry(const Die& die, const Function& function) const;

  const Store& store_;
  TypeReader& types_;
  const FrameTable& frames_;
  mutable PrologueEnds prologue_ends_;
};

}  // namespace uscope::image::dwarf
