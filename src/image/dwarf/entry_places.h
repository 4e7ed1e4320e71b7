// Where a function's parameters are at its very first instruction. The debug info is taken at its word only
// where it can be right there: at the entry nothing of the function's own frame is written yet, so a place in
// that frame (unoptimised code, and LLVM's at every level) would read garbage. For those the place is found
// from what the prologue stores into the frame and from the calling convention; where that is not certain
// the parameter is reported as unavailable, never guessed (docs/decisions/dwarf-reader.md). Internal to
// dwarf/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/abi_go.h"
#include "image/dwarf/debug_info.h"
#include "image/dwarf/frame.h"
#include "image/dwarf/prologue.h"
#include "image/dwarf/prologue_ends.h"
#include "image/dwarf/store.h"
#include "image/dwarf/type_reader.h"
#include "image/dwarf/variables.h"

namespace uscope::image::dwarf {

class EntryPlaces {
 public:
  EntryPlaces(const Store& store, TypeReader& types, const FrameTable& frames, PrologueEnds& ends,
              const Die& die, const Function& function);

  void add(const Die& parameter);
  size_t size() const { return parameters_.size(); }
  // The parameters in order, each with its place at the entry.
  std::vector<Variable> finish();

 private:
  // Where a parameter is kept once the prologue has run.
  struct Home {
    std::optional<int64_t> cfa_offset;  // nothing: somewhere in a frame that is laid out at run time
    bool is_pointer = false;            // the slot holds the parameter's address
  };
  enum class State {
    Settled,      // the debug info's word holds at the entry
    Chosen,       // in a register, after gcc's first moves
    InFrame,      // lives in a slot that is not written yet
    Unavailable,  // not there, for a reason
  };
  struct Parameter {
    Variable variable;
    uint64_t size = 0;
    bool from_list = false;
    State state = State::Unavailable;
    Home home;
  };
  using Places = std::vector<std::optional<Location>>;

  // Judging what the debug info says.
  void judge(Parameter& parameter);
  State judge_piece(LocPiece& piece, bool is_only, Parameter& parameter);
  std::optional<Home> home_of(const LocPiece& piece, bool from_list);
  std::optional<CfaRule> rule_in_body();

  // System V, and Rust.
  void settle_native();
  bool convention_applies() const;
  bool convention_is_kept(const Places& convention) const;
  bool all_have_homes() const;
  // Whether others can call it under its own name, so that its signature is as declared.
  bool is_global() const;
  std::vector<bool> in_order(const Places& described) const;
  void drop_what_is_assigned(const Places& convention, bool kept);
  std::optional<Location> trace(const Parameter& parameter);

  // Go.
  void settle_go();
  void settle_go_stack(const GoCall& call, bool is_complete);
  void settle_go_registers(const GoCall& call);
  void settle_go_results(const GoCall& call, bool in_registers, bool is_complete);

  const std::vector<IncomingStore>& stores();
  bool is_stored_at(int64_t cfa_offset);
  TypeLookup lookup() const;
  bool is_gnu() const { return die_.unit->facts().producer.starts_with("GNU "); }
  bool is_go() const { return function_.language == Language::Go; }

  const Store& store_;
  TypeReader& types_;
  const FrameTable& frames_;
  PrologueEnds& ends_;
  Die die_;
  const Function& function_;
  VariableReader reader_;
  std::vector<Parameter> parameters_;
  std::optional<std::vector<IncomingStore>> stores_;
};

}  // namespace uscope::image::dwarf
