#include "engine/inproc/target/function_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "x86/entry_window.h"
#include "x86/liveness.h"

namespace uscope::engine::inproc {

using x86::Flow;
using x86::Instruction;
using x86::Kind;
using x86::Window;

// A thread that sleeps in a system call may be made to repeat it, two bytes before where it stands: such an
// instruction must stay where it is.
std::optional<std::string> why_unmovable(const Window& window) {
  for (const Instruction& i : window.instructions)
    if (i.kind == Kind::syscall) return fmt::format("the system call at {:#x} cannot be moved", i.address);
  return std::nullopt;
}

namespace {

class FunctionPlanner {
 public:
  FunctionPlanner(const FunctionFacts& facts, std::span<const SiteRequest> sites)
      : facts_(facts), sites_(sites), flow_(x86::analyze(facts.code)) {}

  void add(size_t site);
  FunctionPlan finish() &&;

 private:
  ImageAddr settle(ImageAddr address) const;
  std::expected<Draft, std::string> draft_for(uint64_t site) const;
  PlannedProbe probe_at(ImageAddr address, size_t site) const;
  void merge_overlapping();
  uint64_t padding_for(uint64_t site) const;

  const FunctionFacts& facts_;
  std::span<const SiteRequest> sites_;
  Flow flow_;
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
  if (flow_.parts().empty() || flow_.gap() == x86::Gap::falls_off_end) return 0;
  return flow_.parts().front().contains(site) ? facts_.padding_behind : 0;
}

std::expected<Draft, std::string> FunctionPlanner::draft_for(uint64_t site) const {
  std::string why;
  for (unsigned jump_size : {x86::near_jump_size, x86::short_jump_size}) {
    for (bool absorb : {false, true}) {
      auto window = absorb ? x86::window_before(flow_, site, jump_size, padding_for(site))
                           : x86::window_at(flow_, site, jump_size, padding_for(site));
      if (!window) {
        if (why.empty()) why = window.error().text();
        continue;
      }
      if (auto unmovable = why_unmovable(*window)) {
        why = *unmovable;
        continue;
      }
      const auto& moved = window->instructions;
      if (facts_.parks_anywhere && moved.size() > 1 && moved[1].address < window->start + jump_size) {
        why =
            "goroutines may be parked inside the bytes to patch, and this program is stripped of what "
            "finding them needs";
        continue;
      }
      return Draft{std::move(*window), {}, jump_size, {}};
    }
  }
  return std::unexpected(why);
}

PlannedProbe FunctionPlanner::probe_at(ImageAddr address, size_t site) const {
  PlannedProbe probe{.address = address, .site = site};
  probe.flags_dead = x86::liveness_at(flow_, address.value).flags_dead();
  // Below the stack pointer nothing is kept before a function has begun, nor where it is about to return.
  const Instruction* here = flow_.find(address.value);
  const bool at_entry = address.value == flow_.entry() ||
                        (sites_[site].address.value == flow_.entry() && address != sites_[site].address);
  probe.red_zone_in_use = !at_entry && !(here && here->kind == Kind::ret);
  return probe;
}

void FunctionPlanner::add(size_t site) {
  auto refuse = [&](std::string why) { refused_.push_back({site, std::move(why)}); };
  if (!facts_.forbidden.empty()) return refuse(facts_.forbidden);
  const ImageAddr address = settle(sites_[site].address);
  if (!flow_.find(address.value))
    return refuse(fmt::format("no instruction is known to start at {:#x}", address.value));
  auto draft = draft_for(address.value);
  if (!draft) return refuse(draft.error());
  draft->probes.push_back(probe_at(address, site));
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
                             [](const PlannedProbe& p) { return std::pair(p.address, p.site); });
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
  if (needs_room) plan.flow = std::move(flow_);
  return plan;
}

}  // namespace

FunctionPlan plan_function(const FunctionFacts& facts, std::span<const SiteRequest> requests,
                           std::span<const size_t> sites) {
  FunctionPlanner planner(facts, requests);
  for (size_t site : sites) planner.add(site);
  return std::move(planner).finish();
}

std::optional<FunctionPlan> plan_entry(const EntryFacts& facts, std::span<const SiteRequest> requests,
                                       std::span<const size_t> sites) {
  const bool are_at_entry = std::ranges::all_of(
      sites, [&](size_t site) { return requests[site].address.value == facts.body.address; });
  if (!are_at_entry || facts.parks_anywhere || !facts.forbidden.empty()) return std::nullopt;
  auto entry = x86::entry_window(facts.body);
  if (!entry) return std::nullopt;
  FunctionPlan plan;
  plan.is_by_entry_alone = true;
  plan.parts = {facts.body};
  Draft& draft = plan.drafts.emplace_back();
  draft.window = std::move(entry->window);
  draft.bytes = facts.body.bytes.subspan(draft.window.start - facts.body.address,
                                         draft.window.end - draft.window.start);
  for (size_t site : sites)
    draft.probes.push_back({ImageAddr{draft.window.start}, site, entry->flags_dead, false});
  return plan;
}

}  // namespace uscope::engine::inproc
