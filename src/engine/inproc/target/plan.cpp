#include "engine/inproc/target/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/inproc/target/cross_jumps.h"
#include "x86/encode.h"
#include "x86/liveness.h"

namespace uscope::engine::inproc {
namespace {

using x86::Flow;
using x86::Instruction;
using x86::Kind;
using x86::Window;

// Ranges of addresses that are spoken for.
class Taken {
 public:
  bool overlaps(uint64_t begin, uint64_t end) const {
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first < end) return true;
    return next != ranges_.begin() && std::prev(next)->second > begin;
  }
  void add(uint64_t begin, uint64_t end) { ranges_[begin] = std::max(ranges_[begin], end); }

 private:
  std::map<uint64_t, uint64_t> ranges_;
};

// A window of one function, while sites are still being gathered in it.
struct Draft {
  Window window;
  unsigned jump_size = x86::near_jump_size;
  std::vector<PlannedProbe> probes;

  uint64_t end() const { return window.start + window.size(); }
};

// A thread that sleeps in a system call may be made to repeat it, two bytes before where it stands: such an
// instruction must stay where it is.
std::optional<std::string> why_unmovable(const Window& window) {
  for (const Instruction& i : window.instructions)
    if (i.kind == Kind::syscall) return fmt::format("the system call at {:#x} cannot be moved", i.address);
  return std::nullopt;
}

class FunctionPlanner {
 public:
  FunctionPlanner(const FunctionFacts& facts, std::span<const SiteRequest> sites, ImagePlan& plan)
      : facts_(facts), sites_(sites), plan_(plan), flow_(x86::analyze(facts.code)) {}

  void add(size_t site);
  std::vector<Draft> finish() &&;
  const Flow& flow() const { return flow_; }

 private:
  ImageAddr settle(ImageAddr address) const;
  std::expected<Draft, std::string> draft_for(uint64_t site) const;
  PlannedProbe probe_at(ImageAddr address, size_t site) const;
  void merge_overlapping();
  uint64_t padding_for(uint64_t site) const;

  const FunctionFacts& facts_;
  std::span<const SiteRequest> sites_;
  ImagePlan& plan_;
  Flow flow_;
  std::vector<Draft> drafts_;
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
      return Draft{std::move(*window), jump_size, {}};
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
  auto refuse = [&](std::string why) { plan_.refused.push_back({site, std::move(why)}); };
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

std::vector<Draft> FunctionPlanner::finish() && {
  merge_overlapping();
  return std::move(drafts_);
}

class ImagePlanner {
 public:
  // `jumped_into`: places in the middle of functions that others jump to.
  ImagePlanner(TextFacts& facts, std::span<const SiteRequest> sites, std::span<const uint64_t> jumped_into)
      : facts_(facts), sites_(sites), jumped_into_(jumped_into) {}

  ImagePlan run();

 private:
  void plan_function(const FunctionFacts& facts, std::span<const size_t> sites);
  void take(Draft&& draft, const Flow& flow);
  std::optional<PatchPlan::Hole> find_hole(const Window& window, const Flow& flow) const;
  std::optional<PatchPlan::Hole> evict_near(const Window& window, const Flow& flow, bool parks) const;
  std::optional<PatchPlan::Hole> usable(ImageAddr address, Bytes filler, uint64_t from) const;

  TextFacts& facts_;
  std::span<const SiteRequest> sites_;
  std::span<const uint64_t> jumped_into_;
  ImagePlan plan_;
  Taken taken_;
  // Short jumps look for their holes last, when all windows are known. Their functions' flows stay for that.
  struct Waiting {
    Draft draft;
    size_t flow;
  };
  struct KeptFlow {
    Flow flow;
    bool parks_anywhere;
  };
  std::vector<Waiting> waiting_;
  std::vector<KeptFlow> flows_;
};

// A jump of two bytes reaches 127 bytes ahead and 128 back.
std::optional<PatchPlan::Hole> ImagePlanner::usable(ImageAddr address, Bytes filler, uint64_t from) const {
  for (uint64_t at = 0; at + x86::near_jump_size <= filler.size(); ++at) {
    const ImageAddr here = address + at;
    if (!x86::encode_short_jump(from, here.value)) continue;
    if (taken_.overlaps(here.value, here.value + x86::near_jump_size)) continue;
    return PatchPlan::Hole{here, filler.subspan(at, x86::near_jump_size), std::nullopt};
  }
  return std::nullopt;
}

std::optional<PatchPlan::Hole> ImagePlanner::find_hole(const Window& window, const Flow& flow) const {
  // Filler inside the function: between an instruction that does not go on and the next that is reached.
  const auto& all = flow.instructions();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i].falls_through() || all[i + 1].address < all[i].end() + x86::near_jump_size) continue;
    const uint64_t start = all[i].end();
    const Bytes rest = flow.bytes_at(start);
    const Bytes between = rest.first(std::min<uint64_t>(rest.size(), all[i + 1].address - start));
    x86::Decoder decoder(between, start);
    uint64_t end = start;
    for (auto next = decoder.next(); next && next->is_padding() && !flow.is_leader(next->address);
         next = decoder.next())
      end = next->end();
    if (auto hole = usable(ImageAddr{start}, between.first(end - start), window.start)) return hole;
  }
  for (const TextFacts::Filler& filler :
       facts_.filler_near(ImageAddr{window.start}, 160, x86::near_jump_size))
    if (auto hole = usable(filler.address, filler.bytes, window.start)) return hole;
  return std::nullopt;
}

// Any run of instructions that nothing leads into the middle of can be moved, probe or not.
std::optional<PatchPlan::Hole> ImagePlanner::evict_near(const Window& window, const Flow& flow,
                                                        bool parks) const {
  constexpr unsigned kBoth = 2 * x86::near_jump_size;
  if (parks) return std::nullopt;
  for (const Instruction& first : flow.instructions()) {
    const uint64_t hole_at = first.address + x86::near_jump_size;
    // An endbr64 stays where it is.
    if (first.kind == Kind::endbr64 || !x86::encode_short_jump(window.start, hole_at)) continue;
    if (taken_.overlaps(first.address, first.address + kBoth)) continue;
    auto victim = x86::window_at(flow, first.address, kBoth);
    if (!victim || why_unmovable(*victim)) continue;
    if (taken_.overlaps(victim->start, victim->start + victim->size())) continue;
    const Bytes bytes = flow.bytes_at(victim->start).first(victim->end - victim->start);
    return PatchPlan::Hole{ImageAddr{hole_at}, {}, PatchPlan::Hole::Evicted{std::move(*victim), bytes}};
  }
  return std::nullopt;
}

void ImagePlanner::take(Draft&& draft, const Flow& flow) {
  PatchPlan patch;
  patch.bytes = flow.bytes_at(draft.window.start).first(draft.window.end - draft.window.start);
  patch.probes = std::move(draft.probes);
  patch.window = std::move(draft.window);
  plan_.patches.push_back(std::move(patch));
}

void ImagePlanner::plan_function(const FunctionFacts& facts, std::span<const size_t> sites) {
  FunctionPlanner planner(facts, sites_, plan_);
  for (size_t site : sites) planner.add(site);
  Flow flow = planner.flow();
  bool is_needed_later = false;
  for (Draft& draft : std::move(planner).finish()) {
    // Symbols may nest: the same code can belong to two functions.
    if (taken_.overlaps(draft.window.start, draft.end())) {
      for (const PlannedProbe& probe : draft.probes)
        plan_.refused.push_back({probe.site, "its bytes belong to another function's probe too"});
      continue;
    }
    taken_.add(draft.window.start, draft.end());
    if (draft.jump_size == x86::near_jump_size) {
      take(std::move(draft), flow);
    } else {
      waiting_.push_back({std::move(draft), flows_.size()});
      is_needed_later = true;
    }
  }
  if (is_needed_later) flows_.push_back({std::move(flow), facts.parks_anywhere});
}

ImagePlan ImagePlanner::run() {
  std::vector<size_t> order(sites_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return sites_[i].address; });
  for (size_t first = 0; first < order.size();) {
    auto facts = facts_.function_at(sites_[order[first]].address);
    size_t end = first + 1;
    if (!facts || facts->code.parts.empty()) {
      plan_.refused.push_back({order[first], "it is in no function whose bounds are known"});
      first = end;
      continue;
    }
    facts->code.code_pointers.insert(facts->code.code_pointers.end(), jumped_into_.begin(),
                                     jumped_into_.end());
    // A `.cold` part's sites come apart from its function's own.
    const uint64_t site = sites_[order[first]].address.value;
    for (const x86::CodeRange& part : facts->code.parts)
      while (part.contains(site) && end < order.size() && part.contains(sites_[order[end]].address.value))
        ++end;
    plan_function(*facts, std::span(order).subspan(first, end - first));
    first = end;
  }
  for (auto& [draft, flow] : waiting_) {
    auto hole = find_hole(draft.window, flows_[flow].flow);
    if (!hole) hole = evict_near(draft.window, flows_[flow].flow, flows_[flow].parks_anywhere);
    if (!hole) {
      for (const PlannedProbe& probe : draft.probes)
        plan_.refused.push_back(
            {probe.site, fmt::format("there is room for a 2-byte jump at {:#x} only, and no place within its "
                                     "reach to go on from",
                                     draft.window.start)});
      continue;
    }
    taken_.add(hole->address.value, hole->address.value + x86::near_jump_size);
    if (hole->evicted) {
      const Window& victim = hole->evicted->window;
      taken_.add(victim.start, victim.start + victim.size());
    }
    take(std::move(draft), flows_[flow].flow);
    plan_.patches.back().hole = *hole;
  }
  std::ranges::sort(plan_.patches, {}, [](const PatchPlan& p) { return p.window.start; });
  return std::move(plan_);
}

}  // namespace

namespace {

// What the patches of a plan destroy, but for the first byte of each.
std::vector<Interior> interiors_of(const ImagePlan& plan) {
  std::vector<Interior> interiors;
  for (const PatchPlan& patch : plan.patches) {
    const unsigned size = patch.hole ? x86::short_jump_size : x86::near_jump_size;
    interiors.push_back({patch.window.start + 1, patch.window.start + size});
    if (!patch.hole) continue;
    interiors.push_back({patch.hole->address.value, patch.hole->address.value + x86::near_jump_size});
    if (patch.hole->evicted)
      interiors.push_back({patch.hole->evicted->window.start + 1, patch.hole->address.value});
  }
  return interiors;
}

}  // namespace

Tactic tactic_of(const PatchPlan& patch, const PlannedProbe& probe) {
  if (patch.hole) return patch.hole->evicted ? Tactic::short_jump_to_room : Tactic::short_jump_to_padding;
  if (patch.window.start < probe.address.value) return Tactic::absorbing;
  return patch.window.padding != 0 ? Tactic::into_padding : Tactic::in_place;
}

ImagePlan plan_image(TextFacts& facts, std::span<const SiteRequest> sites) {
  ImagePlan plan = ImagePlanner(facts, sites, {}).run();
  // Code that no function is known for may hold anything.
  auto is_branch = [&](uint64_t from, uint64_t to) {
    auto around = facts.function_at(ImageAddr{from});
    if (!around) return true;
    for (const x86::CodeRange& part : around->code.parts)
      if (part.contains(to)) return false;  // its own flow knows
    const Flow flow = x86::analyze(around->code);
    const Instruction* branch = flow.find(from);
    return branch != nullptr && branch->target == to;
  };
  const std::vector<x86::CodeRange> text = facts.text();
  const std::vector<uint64_t> jumped_into = find_cross_jumps(text, interiors_of(plan), is_branch);
  // Other windows may come out of it, and others be jumped into: rare enough to be refused then.
  if (jumped_into.empty()) return plan;
  plan = ImagePlanner(facts, sites, jumped_into).run();
  const auto again = find_cross_jumps(text, interiors_of(plan), is_branch);
  std::erase_if(plan.patches, [&](const PatchPlan& patch) {
    const uint64_t hole = patch.hole ? patch.hole->address.value : 0;
    const uint64_t victim = patch.hole && patch.hole->evicted ? patch.hole->evicted->window.start : hole;
    const bool is_hit = std::ranges::any_of(again, [&](uint64_t a) {
      return (a > patch.window.start && a < patch.window.start + x86::near_jump_size) ||
             (hole != 0 && a >= victim && a < hole + x86::near_jump_size);
    });
    if (is_hit)
      for (const PlannedProbe& probe : patch.probes)
        plan.refused.push_back({probe.site, "another function jumps into the bytes to patch"});
    return is_hit;
  });
  return plan;
}

}  // namespace uscope::engine::inproc
