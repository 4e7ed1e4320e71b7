// Where a function's parameters are at its very first instruction. The debug info is taken at its word only
// where it can be right there: at the entry nothing of the function's own frame is written yet, so a place in
// that frame (unoptimised code, and LLVM's at every level) would read garbage. For those the place is found
// from what the prologue stores into the frame and from the calling convention; where that is not certain
// the parameter is reported as unavailable, never guessed. Internal to dwarf/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "image/dwarf/frame.h"
#include "image/dwarf/store.h"
#include "image/dwarf/type_reader.h"
#include "image/dwarf/variables.h"

namespace uscope::image::dwarf {

class EntryPlaces {
 public:
  EntryPlaces(const Store& store, TypeReader& types, const FrameTable& frames, const Die& die,
              const Function& function);

  void add(const Die& parameter);
  void set_variadic() { is_variadic_ = true; }
  size_t size() const { return parameters_.size(); }
  // The parameters in order, each with its place at the entry.
  std::vector<Variable> finish();

 private:
  // Where a parameter is kept once the prologue has run.
  struct Home {
    int64_t cfa_offset = 0;
    bool is_pointer = false;  // the slot holds the parameter's address
  };
  enum class State {
    Settled,      // the debug info's word holds at the entry
    InFrame,      // lives in a slot of the frame that is not written yet
    Unavailable,  // not there, for a reason
  };
  struct Parameter {
    Die die;
    Variable variable;
    State state = State::Unavailable;
    std::optional<Home> home;
  };

  void judge(Parameter& parameter);
  std::optional<Home> home_of(const Location& location);
  std::optional<int64_t> cfa_offset_of(const std::vector<LocOp>& ops, size_t* used);
  std::optional<CfaRule> rule_after_prologue();
  void settle_go();
  void settle_from_frame();

  const Store& store_;
  TypeReader& types_;
  const FrameTable& frames_;
  Die die_;
  const Function& function_;
  VariableReader reader_;
  bool is_variadic_ = false;
  std::vector<Parameter> parameters_;
};

}  // namespace uscope::image::dwarf
