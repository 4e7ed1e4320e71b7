// Reads variables and parameters of one function at one instruction: names, types, and where they are.
// Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "image/dwarf/expression.h"
#include "image/dwarf/frame.h"
#include "image/dwarf/type_reader.h"

namespace uscope::image::dwarf {

// Stands for the frame address in places read with symbolic_cfa; no real register has this number.
constexpr uint32_t cfa_register = 100;

// Whether gcc knows for each instruction where a variable is. Else it names one register for all of a
// function: the one that it chose, whatever else that may hold at times.
bool follows_variables(std::string_view producer);

// Whether gcc marks where each statement begins, and so lists what a parameter is before the first one that
// assigns to it, even if the caller does not pass it.
bool lists_what_is_passed(std::string_view producer);

class VariableReader {
 public:
  // `function` may be no DIE: for globals.
  VariableReader(TypeReader& types, const FrameTable& frames, const Unit& unit, const Die& function,
                 uint64_t address, bool symbolic_cfa = false);

  // `as_passed`: a parameter at the entry, before anything is assigned to it.
  Variable read(const Die& die, bool as_passed = false) const;
  Location location_of(const Die& die, bool as_passed = false) const;
  // Whether its place is told by a location list.
  static bool is_from_list(const Die& die);
  // The frame base's computation at this address.
  std::optional<std::vector<LocOp>> frame_base() const;
  // The frame address, by registers as they are at this address.
  std::optional<std::vector<LocOp>> real_cfa() const;
  bool at_entry() const { return at_entry_; }

 private:
  ExpressionContext context() const;
  std::optional<std::vector<LocOp>> cfa() const;
  Location constant_of(const Die& die, const Attr& value) const;

  TypeReader& types_;
  const FrameTable& frames_;
  const Unit& unit_;
  Die function_;
  uint64_t address_;
  bool at_entry_ = false;
  bool symbolic_cfa_ = false;
};

}  // namespace uscope::image::dwarf
