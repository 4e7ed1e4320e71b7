// The patches of one function, without regard to any other: which windows lead from its sites to stubs. A
// draft may still lose its bytes to a neighbour, or turn out to be jumped into from elsewhere; plan.h
// decides. Pure.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/inproc/target/plan.h"
#include "engine/inproc/target/text_facts.h"
#include "x86/flow.h"
#include "x86/window.h"

namespace uscope::engine::inproc {

// A window of one function, with the sites gathered in it.
struct Draft {
  x86::Window window;
  Bytes bytes;  // of its instructions
  unsigned jump_size = x86::near_jump_size;
  std::vector<PlannedProbe> probes;

  uint64_t end() const { return window.start + window.size(); }
};

struct FunctionPlan {
  std::vector<Draft> drafts;  // by address, not overlapping
  std::vector<SiteRefusal> refused;
  std::vector<x86::CodeRange> parts;
  bool parks_anywhere = false;
  std::shared_ptr<const FaultFacts> faults;  // where `flow` is; plans are moved about
  // Only the first instructions were looked at: what jumps into the windows, also from the function itself,
  // is not known yet. The probe, too, must be at a place that nothing else leads to.
  bool is_by_entry_alone = false;
  // Kept where a draft needs a place nearby for its jump.
  std::optional<x86::Flow> flow;
};

// `sites`: indices into `requests`, all in this function.
FunctionPlan plan_function(const FunctionFacts& facts, std::span<const SiteRequest> requests,
                           std::span<const size_t> sites);

// The same for sites that are all at the function's entry, by its first instructions alone; nothing if that
// is not enough.
std::optional<FunctionPlan> plan_entry(const EntryFacts& facts, std::span<const SiteRequest> requests,
                                       std::span<const size_t> sites);

// Why the window's instructions must stay where they are; nothing if they need not.
std::optional<std::string> why_unmovable(const x86::Window& window, const x86::Flow& flow,
                                         const FaultFacts& faults);

}  // namespace uscope::engine::inproc
