#include "engine/inproc/target/function_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "x86/entry_step.h"
#include "x86/entry_window.h"
#include "x86/faults.h"
#include "x86/liveness.h"

namespace uscope::engine::inproc {

using x86::Flow;
using x86::Instruction;
using x86::Kind;
using x86::Window;

namespace {

// A thread that sleeps in a system call may be made to repeat it, two bytes before where it stands: such an
// instruction must stay where it is. So must one whose faults are looked up by their address. `code`: the
// function, as is_return_address_on_top() takes it; `bytes_at`: its bytes from an address on.
template <typename Code, typename BytesAt>
std::optional<std::string> why_unmovable(const Window& window, const Code& code, const FaultFacts& faults,
                                         BytesAt bytes_at) {
  for (const Instruction& i : window.instructions) {
    if (i.kind == Kind::syscall) return fmt::format("the system call at {:#x} cannot be moved", i.address);
    if ((!faults.panics && !faults.lands) || !x86::may_fault(bytes_at(i.address).first(i.length))) continue;
    if (faults.panics && !x86::is_return_address_on_top(code, i.address))
      return fmt::format("the instruction at {:#x} may panic, and Go would not know it elsewhere", i.address);
    const bool is_call = i.kind == Kind::call || i.kind == Kind::indirect_call;
    if (faults.lands && !is_call && faults.lands(i.address))
      return fmt::format("the instruction at {:#x} may throw, and would not be known elsewhere", i.address);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_unmovable(const Window& window, const Flow& flow, const FaultFacts& faults) {
  return why_unmovable(window, flow, faults, [&](uint64_t address) { return flow.bytes_at(address); });
}

namespace {

class FunctionPlanner {
 public:
  // `sites`: those of `requests` that are planned.
  FunctionPlanner(const FunctionFacts& facts, std::span<const SiteRequest> requests,
                  std::span<const size_t> sites)
      : facts_(facts), sites_(requests), flow_(x86::analyze(facts.code)) {
    for (size_t site : sites)
      if (requests[site].address.value == flow_.entry()) read_at_entry_ |= requests[site].read;
  }

  void add(size_t site);
  FunctionPlan finish() &&;

 private:
  using Windowed = std::expected<Window, x86::WindowRefusal>;
  using Drafted = std::expected<Draft, std::string>;

  ImageAddr settle(ImageAddr address) const;
  Drafted draft_for(uint64_t site) const;
  // A draft of a window that may be none, or have to stay as it is.
  Drafted drafted(Windowed&& window, unsigned jump_size) const;
  std::optional<std::vector<Draft>> drafts_on_ways(uint64_t exit, size_t site) const;
  Drafted draft_up_to(uint64_t end) const;
  bool are_in_one_part(uint64_t a, uint64_t b) const;
  std::optional<Draft> draft_behind_first(size_t site, bool past_marks) const;
  bool may_jump_to_entry() const;
  PlannedProbe probe_at(ImageAddr address, size_t site) const;
  void merge_overlapping();
  uint64_t padding_for(uint64_t site) const;

  const FunctionFacts& facts_;
  std::span<const SiteRequest> sites_;
  Flow flow_;
  x86::RegisterSet read_at_entry_ = 0;  // by all probes there: they stay together, and in their order
  std::vector<Draft> drafts_;
  std::vector<SiteRefusal> refused_;
};

// Behind an endbr64 at the entry everything is as it was before it, unless something jumps there.
ImageAddr FunctionPlanner::settle(ImageAddr address) const {
  const Instruction* first = flow_.find(address.value);
  const bool is_marked_entry = address.value == flow_.entry() && first && first->kind == Kind::endbr64;
  if (!is_marked_entry || flow_.is_leader(first->end()) || !flow_.find(first->end())) return address;
  return ImageAddr{first->end()};
}

uint64_t FunctionPlanner::padding_for(uint64_t site) const {
  // Execution that runs off the end runs through the filler.
  if (flow_.parts().empty() || flow_.gap() == x86::Gap::falls_off_end || flow_.runs_through_filler())
    return 0;
  return flow_.parts().front().contains(site) ? facts_.padding_behind : 0;
}

FunctionPlanner::Drafted FunctionPlanner::drafted(Windowed&& window, unsigned jump_size) const {
  if (!window) return std::unexpected(window.error().text());
  if (auto unmovable = why_unmovable(*window, flow_, facts_.faults)) return std::unexpected(*unmovable);
  const auto& moved = window->instructions;
  if (facts_.parks_anywhere && moved.size() > 1 && moved[1].address < window->start + jump_size)
    return std::unexpected(
        "goroutines may be parked inside the bytes to patch, and this program is stripped of what "
        "finding them needs");
  return Draft{std::move(*window), {}, jump_size, {}};
}

// What a probe of a function's entry has to undo that is behind `step`.
PlannedProbe::Behind undo(const x86::EntryStep& step, Bytes function, bool flags_dead) {
  const bool repeats = !flags_dead && step.can_repeat;
  return {step.length, step.last_length, step.stack_change,
          repeats ? function.subspan(step.length - step.last_length, step.last_length) : Bytes()};
}

// For a site on the function's first instruction: a window that leaves that one where it is. Nothing if it
// must be part of it.
std::optional<Draft> FunctionPlanner::draft_behind_first(size_t site, bool past_marks) const {
  const uint64_t entry = flow_.entry();
  if (sites_[site].address.value != entry || sites_[site].only_if || !flow_.find(entry)) return std::nullopt;
  const Bytes code = flow_.bytes_at(entry);
  const auto step = x86::step_behind_entry(code, read_at_entry_, past_marks);
  if (!step) return std::nullopt;
  // As if it were part of it: so nothing leads to what is behind it.
  auto window = x86::window_at(flow_, entry, step->length + x86::near_jump_size, padding_for(entry));
  if (!window) return std::nullopt;
  window->start += step->length;
  std::erase_if(window->instructions, [&](const Instruction& i) { return i.address < window->start; });
  if (window->instructions.empty()) return std::nullopt;
  Drafted draft = drafted(std::move(*window), x86::near_jump_size);
  if (!draft) return std::nullopt;
  PlannedProbe& probe = draft->probes.emplace_back(probe_at(ImageAddr{draft->window.start}, site));
  probe.behind = undo(*step, code, probe.flags_dead);
  return std::move(*draft);
}

FunctionPlanner::Drafted FunctionPlanner::draft_for(uint64_t site) const {
  std::string why;
  for (unsigned jump_size : {x86::near_jump_size, x86::short_jump_size}) {
    for (bool absorb : {false, true}) {
      Drafted draft = drafted(absorb ? x86::window_before(flow_, site, jump_size, padding_for(site))
                                     : x86::window_at(flow_, site, jump_size, padding_for(site)),
                              jump_size);
      if (draft) return draft;
      if (why.empty()) why = std::move(draft.error());
    }
  }
  return std::unexpected(why);
}

FunctionPlanner::Drafted FunctionPlanner::draft_up_to(uint64_t end) const {
  Drafted draft = drafted(x86::window_up_to(flow_, end), x86::near_jump_size);
  return draft ? std::move(draft)
               : drafted(x86::window_up_to(flow_, end, x86::short_jump_size), x86::short_jump_size);
}

bool FunctionPlanner::are_in_one_part(uint64_t a, uint64_t b) const {
  return std::ranges::any_of(
      flow_.parts(), [&](const x86::CodeRange& part) { return part.contains(a) && part.contains(b); });
}

// An exit of one byte that jumps lead to, with other code right behind it, stays as it is: whoever gets there
// passes a probe on his way. A jump changes nothing, so that all is there as it will be at the exit. All
// ways that are this function's must be known; who jumps there from another is no call of this one.
std::optional<std::vector<Draft>> FunctionPlanner::drafts_on_ways(uint64_t exit, size_t site) const {
  const Instruction* here = flow_.find(exit);
  if (!here || here->falls_through() || !flow_.is_leader(exit)) return std::nullopt;
  const auto ways = flow_.ways_to(exit);
  if (!ways) return std::nullopt;
  std::vector<Draft> drafts;
  auto add = [&](Drafted&& draft, uint64_t address, std::optional<uint8_t> condition) {
    // Who looks for what leads into a window asks the function around it.
    if (!draft || !are_in_one_part(exit, draft->window.start)) return false;
    PlannedProbe probe = probe_at(ImageAddr{address}, site);
    probe.red_zone_in_use = here->kind != Kind::ret;
    probe.only_if = condition;
    probe.is_on_a_way = true;
    draft->probes.push_back(probe);
    drafts.push_back(std::move(*draft));
    return true;
  };
  for (const Instruction* way : *ways) {
    if (way->falls_through() && way->end() == exit && !add(draft_up_to(exit), exit, std::nullopt))
      return std::nullopt;
    if (!way->is_direct_branch() || way->target != exit) continue;
    if (way->kind == Kind::conditional_jump) {
      if (!add(draft_for(way->address), way->address, way->condition)) return std::nullopt;
    } else if (way->kind != Kind::jump) {
      return std::nullopt;
    } else if (!add(draft_for(way->address), way->address, std::nullopt)) {
      return std::nullopt;
    }
  }
  return drafts;
}

// A loop may begin with the function's first instruction.
bool FunctionPlanner::may_jump_to_entry() const {
  return !flow_.complete() || !flow_.tables().empty() ||
         std::ranges::any_of(flow_.instructions(), [&](const Instruction& i) {
           return i.is_direct_branch() && i.target == flow_.entry();
         });
}

PlannedProbe FunctionPlanner::probe_at(ImageAddr address, size_t site) const {
  PlannedProbe probe{.address = address, .site = site, .only_if = sites_[site].only_if};
  probe.flags_dead = x86::liveness_at(flow_, address.value).flags_dead();
  // Below the stack pointer nothing is kept before a function has begun, nor where it is about to return.
  const Instruction* here = flow_.find(address.value);
  const bool at_entry = address.value == flow_.entry() ||
                        (sites_[site].address.value == flow_.entry() && address != sites_[site].address);
  const bool has_begun = !at_entry || may_jump_to_entry();
  probe.red_zone_in_use = has_begun && !(here && here->kind == Kind::ret);
  return probe;
}

void FunctionPlanner::add(size_t site) {
  auto refuse = [&](std::string why) { refused_.push_back({site, std::move(why)}); };
  if (!facts_.forbidden.empty()) return refuse(facts_.forbidden);
  for (bool past_marks : {true, false})
    if (auto draft = draft_behind_first(site, past_marks)) {
      drafts_.push_back(std::move(*draft));
      return;
    }
  const ImageAddr address = settle(sites_[site].address);
  if (!flow_.find(address.value))
    return refuse(fmt::format("no instruction is known to start at {:#x}", address.value));
  auto draft = draft_for(address.value);
  if (!draft) {
    auto on_ways = drafts_on_ways(address.value, site);
    if (!on_ways) return refuse(draft.error());
    std::ranges::move(*on_ways, std::back_inserter(drafts_));
    return;
  }
  draft->probes.push_back(probe_at(address, site));
  if (const auto distance = uint32_t(address - sites_[site].address); distance != 0)
    draft->probes.back().behind = {distance, distance};
  drafts_.push_back(std::move(*draft));
}

// Two windows that overlap become one over both. Nothing leads into the middle of either, so nothing leads
// into the middle of the whole; and a call can only be its last instruction, as it could only be theirs.
void FunctionPlanner::merge_overlapping() {
  std::ranges::stable_sort(drafts_, {}, [](const Draft& d) { return d.window.start; });
  std::vector<Draft> merged;
  for (Draft& draft : drafts_) {
    if (merged.empty() || merged.back().end() <= draft.window.start) {
      merged.push_back(std::move(draft));
      continue;
    }
    Draft& into = merged.back();
    for (const Instruction& i : draft.window.instructions) {
      if (i.address < into.window.end) continue;
      into.window.instructions.push_back(i);
    }
    const uint64_t end = std::max(into.end(), draft.end());
    into.window.end = std::max(into.window.end, draft.window.end);
    into.window.padding = end - into.window.end;
    into.probes.insert(into.probes.end(), draft.probes.begin(), draft.probes.end());
    if (into.window.size() >= x86::near_jump_size) into.jump_size = x86::near_jump_size;
  }
  for (Draft& draft : merged)
    std::ranges::stable_sort(draft.probes, {},
                             [](const PlannedProbe& p) { return std::tuple(p.address, !p.behind, p.site); });
  drafts_ = std::move(merged);
}

FunctionPlan FunctionPlanner::finish() && {
  merge_overlapping();
  FunctionPlan plan;
  for (Draft& draft : drafts_)
    draft.bytes = flow_.bytes_at(draft.window.start).first(draft.window.end - draft.window.start);
  const bool needs_room =
      std::ranges::any_of(drafts_, [](const Draft& d) { return d.jump_size != x86::near_jump_size; });
  plan.drafts = std::move(drafts_);
  plan.refused = std::move(refused_);
  plan.parts = flow_.parts();
  plan.parks_anywhere = facts_.parks_anywhere;
  if (needs_room) plan.faults = std::make_shared<FaultFacts>(facts_.faults);
  if (needs_room) plan.flow = std::move(flow_);
  return plan;
}

}  // namespace

FunctionPlan plan_function(const FunctionFacts& facts, std::span<const SiteRequest> requests,
                           std::span<const size_t> sites) {
  FunctionPlanner planner(facts, requests, sites);
  for (size_t site : sites) planner.add(site);
  return std::move(planner).finish();
}

std::optional<FunctionPlan> plan_entry(const EntryFacts& facts, std::span<const SiteRequest> requests,
                                       std::span<const size_t> sites) {
  const bool are_at_entry = std::ranges::all_of(
      sites, [&](size_t site) { return requests[site].address.value == facts.body.address; });
  if (!are_at_entry || facts.parks_anywhere || !facts.forbidden.empty()) return std::nullopt;
  x86::RegisterSet read = 0;
  for (size_t site : sites) read |= requests[site].read;
  auto entry = x86::entry_window(facts.body, read);
  if (!entry) return std::nullopt;
  auto bytes_at = [&](uint64_t address) { return facts.body.bytes.subspan(address - facts.body.address); };
  if (why_unmovable(entry->window, facts.body, facts.faults, bytes_at)) return std::nullopt;
  FunctionPlan plan;
  plan.is_by_entry_alone = true;
  plan.parts = {facts.body};
  Draft& draft = plan.drafts.emplace_back();
  draft.window = std::move(entry->window);
  draft.bytes = facts.body.bytes.subspan(draft.window.start - facts.body.address,
                                         draft.window.end - draft.window.start);
  std::optional<PlannedProbe::Behind> behind;
  if (entry->behind) behind = undo(*entry->behind, facts.body.bytes, entry->flags_dead);
  // What jumps back to the entry has not been looked for: its function may keep things below the stack
  // pointer.
  constexpr bool red_zone_in_use = true;
  for (size_t site : sites)
    draft.probes.push_back({ImageAddr{draft.window.start}, site, entry->flags_dead, red_zone_in_use,
                            requests[site].only_if, false, behind});
  return plan;
}

}  // namespace uscope::engine::inproc
