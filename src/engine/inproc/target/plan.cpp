#include "engine/inproc/target/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "base/parallel.h"
#include "engine/inproc/target/cross_jumps.h"
#include "engine/inproc/target/function_plan.h"
#include "engine/inproc/target/holes.h"

namespace uscope::engine::inproc {
namespace {

using x86::CodeRange;
using x86::Window;

// From so many functions on, looking through all of the code for what leads into the few bytes of their
// entries is cheaper than following the flow of each.
constexpr size_t kMany = 200;
constexpr size_t kGroupsAtOnce = 64;

constexpr std::array<uint8_t, 10> kPrefixes = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0xf0, 0xf2, 0xf3};

// What short jumps may reach lies this far around at most.
constexpr uint64_t kAround = 512;

// The sites of one function, or of one part of it.
struct Group {
  std::vector<size_t> sites;  // by address
  CodeRange code;
  FunctionPlan plan;
  // Something may lead into its first bytes: looking at these alone is not enough.
  bool is_led_into = false;
};

class ImagePlanner {
 public:
  ImagePlanner(TextFacts& facts, std::span<const SiteRequest> sites) : facts_(facts), sites_(sites) {}

  ImagePlan run();

 private:
  void make_groups();
  std::optional<CodeRange> running_through(ImageAddr filler);
  void plan_groups();
  void plan_whole(Group& group, std::span<const uint64_t> jumped_into);
  void check_entries();
  void look_at_entries_alone();
  std::optional<FunctionPlan> plan_refused_entry(const Group& group);
  void take_over(Group& group, FunctionPlan&& by_entry);
  std::vector<CrossJump> find_jumps(std::span<const Interior> interiors) const;
  Leads leads(uint64_t from, uint64_t to) const;
  bool is_known(const CrossJump& jump) const;
  bool counts(const CrossJump& jump, const FunctionPlan& plan) const;
  const WholeSearch& whole();
  bool is_own(const Group& group, const CrossJump& jump) const;
  // Those that hold an address: several only where functions nest.
  std::vector<Group*> groups_at(uint64_t address);
  void settle_windows();
  void find_holes();
  void check_last();
  void drop_refused();
  void add(Draft&& draft, std::optional<PatchPlan::Hole> hole);

  TextFacts& facts_;
  std::span<const SiteRequest> sites_;
  std::vector<CodeRange> text_;
  std::vector<Group> groups_;  // by address
  bool by_entries_ = false;
  std::optional<WholeSearch> whole_;
  Taken taken_{0, 0};
  // Short jumps look for their holes last, when all windows are known.
  struct Waiting {
    Group* group;
    Draft draft;
  };
  std::vector<Waiting> waiting_;
  std::vector<Interior> unchecked_;  // bytes to be destroyed that no search has been for yet
  ImagePlan plan_;
};

// A function whose execution runs through the filler behind it: it is one of its own, then.
std::optional<CodeRange> ImagePlanner::running_through(ImageAddr filler) {
  auto facts = facts_.function_at(filler);
  if (!facts || !facts->code.up_to_next || !facts->code.up_to_next->contains(filler.value))
    return std::nullopt;
  return facts->code.up_to_next;
}

void ImagePlanner::make_groups() {
  std::vector<size_t> order(sites_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return sites_[i].address; });
  groups_.reserve(sites_.size());
  for (size_t site : order) {
    const uint64_t address = sites_[site].address.value;
    if (!groups_.empty() && groups_.back().code.contains(address)) {
      groups_.back().sites.push_back(site);
      continue;
    }
    auto code = facts_.code_around(sites_[site].address);
    if (!code) code = running_through(sites_[site].address);
    if (code && !groups_.empty() && groups_.back().code.address == code->address) {
      groups_.back().code = *code;
      groups_.back().sites.push_back(site);
      continue;
    }
    if (!code) {
      plan_.refused.push_back({site, "it is in no function whose bounds are known"});
      continue;
    }
    groups_.push_back({{site}, *code, {}});
  }
  // Functions may nest.
  auto address_of = [](const Group& group) { return group.code.address; };
  if (!std::ranges::is_sorted(groups_, {}, address_of)) std::ranges::stable_sort(groups_, {}, address_of);
}

void ImagePlanner::plan_whole(Group& group, std::span<const uint64_t> jumped_into) {
  auto facts = facts_.function_at(sites_[group.sites.front()].address);
  if (!facts || facts->code.parts.empty()) {
    group.plan = {};
    for (size_t site : group.sites)
      group.plan.refused.push_back({site, "it is in no function whose bounds are known"});
    return;
  }
  auto& pointers = facts->code.code_pointers;
  pointers.insert(pointers.end(), jumped_into.begin(), jumped_into.end());
  group.plan = plan_function(*facts, sites_, group.sites);
}

void ImagePlanner::plan_groups() {
  by_entries_ = groups_.size() >= kMany;
  const size_t blocks = (groups_.size() + kGroupsAtOnce - 1) / kGroupsAtOnce;
  for_each_in_parallel(blocks, [&](size_t block) {
    const size_t end = std::min(groups_.size(), (block + 1) * kGroupsAtOnce);
    for (size_t i = block * kGroupsAtOnce; i < end; ++i) {
      Group& group = groups_[i];
      if (by_entries_)
        if (auto facts = facts_.entry_at(ImageAddr{group.code.address}))
          if (auto plan = plan_entry(*facts, sites_, group.sites)) {
            group.plan = std::move(*plan);
            continue;
          }
      plan_whole(group, {});
    }
  });
}

// Where nothing may lead: what a patch destroys, without its first byte. If it begins with the probe of an
// entry that is before it, what leads to between the two would be taken for a call.
Interior interior_of(uint64_t start, unsigned jump_size, std::span<const PlannedProbe> probes) {
  uint64_t entry = start;
  for (const PlannedProbe& probe : probes)
    if (probe.behind && probe.address.value == start) entry = start - probe.behind->distance;
  return {entry + 1, start + jump_size};
}

Interior interior_of(const Draft& draft) {
  return interior_of(draft.window.start, draft.jump_size, draft.probes);
}

std::optional<uint64_t> way_into(std::span<const uint64_t> ways_in, const Interior& inside) {
  auto way = std::ranges::lower_bound(ways_in, inside.begin);
  return way != ways_in.end() && *way < inside.end ? std::optional(*way) : std::nullopt;
}

// Where an instruction begins, or behind its prefix, over which hand-written code jumps (`lock`).
bool is_start(const Window& window, Bytes bytes, std::span<const PlannedProbe> probes, uint64_t address) {
  auto starts = [&](const x86::Instruction& i) {
    const uint64_t at = i.address - window.start;
    return i.address == address ||
           (i.address + 1 == address && at < bytes.size() && std::ranges::count(kPrefixes, bytes[at]) != 0);
  };
  return std::ranges::any_of(window.instructions, starts) ||
         std::ranges::any_of(probes, [&](const PlannedProbe& probe) {
           return probe.behind && address == probe.address.value - probe.behind->last_length;
         });
}

bool is_plausible(const FunctionPlan& plan, const CrossJump& jump) {
  return !jump.is_guess || std::ranges::any_of(plan.drafts, [&](const Draft& draft) {
    return is_start(draft.window, draft.bytes, draft.probes, jump.to);
  });
}

// Code that no function is known for may hold anything.
Leads ImagePlanner::leads(uint64_t from, uint64_t to) const {
  auto around = facts_.code_around(ImageAddr{from});
  return around ? leads_to(*around, from, to) : Leads::Maybe;
}

// More than what may be a table's entry.
bool ImagePlanner::is_known(const CrossJump& jump) const {
  return !jump.is_guess || jump.is_pointer ||
         (is_searched(text_, jump.from, jump.to) && leads(jump.from, jump.to) != Leads::No);
}

// What may be a table's entry is not heard where a function's own flow tells more.
bool ImagePlanner::counts(const CrossJump& jump, const FunctionPlan& plan) const {
  return is_plausible(plan, jump) && (plan.is_by_entry_alone || is_known(jump));
}

const WholeSearch& ImagePlanner::whole() {
  if (!whole_) whole_ = {text_, facts_.pieces(), facts_.data(), facts_.is_fixed()};
  return *whole_;
}

std::vector<CrossJump> ImagePlanner::find_jumps(std::span<const Interior> interiors) const {
  CrossJumpSearch search;
  search.text = text_;
  search.is_branch = [&](uint64_t from, uint64_t to) { return leads(from, to) != Leads::No; };
  std::vector<CrossJump> found = find_cross_jumps(search, interiors);
  for (CrossJump& jump : found) jump.is_guess = leads(jump.from, jump.to) != Leads::Yes;
  // What is looked at for one function alone counts among many.
  std::erase_if(
      found, [&](const CrossJump& jump) { return jump.is_guess && !is_searched(text_, jump.from, jump.to); });
  if (!facts_.is_fixed()) return found;
  for (const auto& ranges : {facts_.data(), text_})
    std::ranges::copy(find_pointers(ranges, interiors), std::back_inserter(found));
  return found;
}

std::vector<Group*> ImagePlanner::groups_at(uint64_t address) {
  constexpr int deepest = 16;
  std::vector<Group*> found;
  auto at = std::ranges::upper_bound(groups_, address, {}, [](const Group& g) { return g.code.address; });
  for (int looked = 0; at != groups_.begin() && looked < deepest; ++looked)
    if ((--at)->code.contains(address)) found.push_back(&*at);
  return found;
}

// A function whose flow was followed knows its own jumps.
bool ImagePlanner::is_own(const Group& group, const CrossJump& jump) const {
  return !group.plan.is_by_entry_alone && std::ranges::any_of(group.plan.parts, [&](const CodeRange& part) {
    return part.contains(jump.from);
  });
}

// Looks for what leads into the windows. A function that something leads into is planned again, all of its
// flow followed, and with that in mind.
void ImagePlanner::check_entries() {
  std::vector<Interior> interiors;
  for (const Group& group : groups_)
    for (const Draft& draft : group.plan.drafts) interiors.push_back(interior_of(draft));
  std::vector<std::pair<Group*, CrossJump>> again;
  for (const CrossJump& jump : by_entries_ ? find_all_jumps(whole(), interiors) : find_jumps(interiors))
    for (Group* to : groups_at(jump.to))
      if (!is_own(*to, jump) && counts(jump, to->plan)) again.push_back({to, jump});
  const std::span<const uint64_t> ways_in = by_entries_ ? facts_.ways_in() : std::span<const uint64_t>();
  for (Group& group : groups_) {
    if (!group.plan.is_by_entry_alone) continue;
    if (auto way = way_into(ways_in, interior_of(group.plan.drafts.front())))
      again.push_back({&group, {0, *way}});
  }
  std::ranges::sort(again, {}, [](const auto& each) { return std::pair(each.first, each.second.to); });
  for (size_t first = 0; first < again.size();) {
    std::vector<uint64_t> jumped_into;
    size_t end = first;
    Group& group = *again[first].first;
    for (; end < again.size() && again[end].first == &group; ++end)
      if (const CrossJump& jump = again[end].second; is_known(jump)) jumped_into.push_back(jump.to);
    group.is_led_into = group.plan.is_by_entry_alone;
    plan_whole(group, jumped_into);
    for (const Draft& draft : group.plan.drafts) unchecked_.push_back(interior_of(draft));
    first = end;
  }
}

// By its first instructions alone, where following the flow was of no use.
std::optional<FunctionPlan> ImagePlanner::plan_refused_entry(const Group& group) {
  if (group.plan.is_by_entry_alone || group.is_led_into) return std::nullopt;
  const uint64_t entry = group.code.address;
  std::vector<size_t> sites;
  for (const SiteRefusal& refusal : group.plan.refused)
    if (sites_[refusal.site].address.value == entry) sites.push_back(refusal.site);
  // Not all is known of what leads there, but enough for a short jump, which may find no place to go on from.
  for (const Draft& draft : group.plan.drafts)
    for (const PlannedProbe& probe : draft.probes)
      if (draft.jump_size != x86::near_jump_size && group.plan.flow && !group.plan.flow->complete() &&
          sites_[probe.site].address.value == entry)
        sites.push_back(probe.site);
  if (sites.empty()) return std::nullopt;
  auto facts = facts_.entry_at(ImageAddr{entry});
  return facts ? plan_entry(*facts, sites_, sites) : std::nullopt;
}

// One function is to be treated as it is among many: what its flow did not show, a walk through all code may.
void ImagePlanner::look_at_entries_alone() {
  std::vector<std::pair<Group*, FunctionPlan>> plans;
  std::vector<Interior> interiors;
  for (Group& group : groups_)
    if (auto plan = plan_refused_entry(group)) {
      interiors.push_back(interior_of(plan->drafts.front()));
      plans.push_back({&group, std::move(*plan)});
    }
  if (plans.empty()) return;
  const std::span<const uint64_t> ways_in = facts_.ways_in();
  for (const CrossJump& jump : find_all_jumps(whole(), interiors))
    for (auto& [group, plan] : plans)
      if (group->code.contains(jump.to) && is_plausible(plan, jump)) group->is_led_into = true;
  for (auto& [group, plan] : plans)
    if (!group->is_led_into && !way_into(ways_in, interior_of(plan.drafts.front())))
      take_over(*group, std::move(plan));
}

// Puts the entry's draft in the place of what the function's plan has there.
void ImagePlanner::take_over(Group& group, FunctionPlan&& by_entry) {
  Draft& entry = by_entry.drafts.front();
  auto is_taken_over = [&](size_t site) {
    return std::ranges::any_of(entry.probes, [&](const PlannedProbe& probe) { return probe.site == site; });
  };
  auto is_replaced = [&](const Draft& draft) {
    return std::ranges::all_of(draft.probes, [&](const PlannedProbe& p) { return is_taken_over(p.site); });
  };
  auto& drafts = group.plan.drafts;
  for (const Draft& draft : drafts)
    if (draft.window.start < entry.end() && entry.window.start < draft.end() && !is_replaced(draft)) return;
  std::erase_if(drafts, is_replaced);
  std::erase_if(group.plan.refused, [&](const SiteRefusal& refusal) { return is_taken_over(refusal.site); });
  drafts.insert(drafts.begin(), std::move(entry));
}

void ImagePlanner::add(Draft&& draft, std::optional<PatchPlan::Hole> hole) {
  PatchPlan patch;
  patch.bytes = draft.bytes;
  patch.probes = std::move(draft.probes);
  patch.window = std::move(draft.window);
  patch.hole = std::move(hole);
  plan_.patches.push_back(std::move(patch));
}

void ImagePlanner::settle_windows() {
  if (groups_.empty()) return;
  uint64_t low = groups_.front().code.address, high = 0;
  for (const Group& group : groups_)
    for (const Draft& draft : group.plan.drafts) {
      low = std::min(low, draft.window.start);
      high = std::max(high, draft.end());
    }
  plan_.patches.reserve(groups_.size());
  low -= std::min(low, kAround);
  taken_ = Taken(low, std::max(low, high + kAround));
  for (Group& group : groups_) {
    for (SiteRefusal& refusal : group.plan.refused) plan_.refused.push_back(std::move(refusal));
    for (Draft& draft : group.plan.drafts) {
      // Symbols may nest: the same code can belong to two functions.
      if (taken_.overlaps(draft.window.start, draft.end())) {
        for (const PlannedProbe& probe : draft.probes)
          plan_.refused.push_back({probe.site, "its bytes belong to another function's probe too"});
        continue;
      }
      taken_.add(draft.window.start, draft.end());
      if (draft.jump_size == x86::near_jump_size)
        add(std::move(draft), std::nullopt);
      else
        waiting_.push_back({&group, std::move(draft)});
    }
  }
}

void ImagePlanner::find_holes() {
  HoleFinder finder(facts_, taken_);
  for (auto& [group, draft] : waiting_) {
    auto hole = finder.find(draft.window, group->plan);
    if (!hole) {
      for (const PlannedProbe& probe : draft.probes)
        plan_.refused.push_back(
            {probe.site, fmt::format("there is room for a 2-byte jump at {:#x} only, and no place within its "
                                     "reach to go on from",
                                     draft.window.start)});
      continue;
    }
    unchecked_.push_back({hole->address.value, hole->address.value + x86::near_jump_size});
    if (hole->evicted) unchecked_.push_back({hole->evicted->window.start + 1, hole->address.value});
    add(std::move(draft), std::move(hole));
  }
}

// What the second look brought about may be led into as well: rare enough to be refused then.
void ImagePlanner::check_last() {
  const std::vector<CrossJump> jumps = find_jumps(unchecked_);
  if (jumps.empty()) return;
  std::erase_if(plan_.patches, [&](const PatchPlan& patch) {
    const uint64_t hole = patch.hole ? patch.hole->address.value : 0;
    const uint64_t victim = patch.hole && patch.hole->evicted ? patch.hole->evicted->window.start : hole;
    const unsigned size = patch.hole ? x86::short_jump_size : x86::near_jump_size;
    const bool is_hit = std::ranges::any_of(jumps, [&](const CrossJump& jump) {
      const Interior inside = interior_of(patch.window.start, size, patch.probes);
      if (jump.to >= inside.begin && jump.to < inside.end) {
        if (jump.is_guess && !is_start(patch.window, patch.bytes, patch.probes, jump.to)) return false;
        return std::ranges::none_of(groups_at(patch.window.start),
                                    [&](const Group* group) { return is_own(*group, jump); });
      }
      if (hole == 0 || jump.to < victim || jump.to >= hole + x86::near_jump_size) return false;
      // The first instruction that was moved may be jumped to: a jump stands there.
      return jump.to != victim || patch.hole->evicted == std::nullopt;
    });
    if (is_hit)
      for (const PlannedProbe& probe : patch.probes)
        plan_.refused.push_back({probe.site, "another function jumps into the bytes to patch"});
    return is_hit;
  });
}

// A site whose probes could not all be kept has none.
void ImagePlanner::drop_refused() {
  if (plan_.refused.empty()) return;
  std::ranges::stable_sort(plan_.refused, {}, &SiteRefusal::site);
  auto same = std::ranges::unique(plan_.refused, {}, &SiteRefusal::site);
  plan_.refused.erase(same.begin(), same.end());
  std::vector<bool> is_refused(sites_.size());
  for (const SiteRefusal& refusal : plan_.refused) is_refused[refusal.site] = true;
  plan_.drop(is_refused);
}

ImagePlan ImagePlanner::run() {
  if (sites_.size() >= kMany) facts_.expect_many();
  text_ = facts_.text();
  make_groups();
  plan_groups();
  check_entries();
  look_at_entries_alone();
  settle_windows();
  find_holes();
  check_last();
  drop_refused();
  // Two runs of them, the second of those that had to find a hole.
  auto start_of = [](const PatchPlan& patch) { return patch.window.start; };
  const auto second = std::ranges::is_sorted_until(plan_.patches, {}, start_of);
  std::ranges::sort(second, plan_.patches.end(), {}, start_of);
  std::ranges::inplace_merge(plan_.patches, second, {}, start_of);
  return std::move(plan_);
}

}  // namespace

void ImagePlan::drop(const std::vector<bool>& sites) {
  for (PatchPlan& patch : patches)
    std::erase_if(patch.probes, [&](const PlannedProbe& probe) { return sites[probe.site]; });
  std::erase_if(patches, [](const PatchPlan& patch) { return patch.probes.empty(); });
}

Tactic tactic_of(const PatchPlan& patch, const PlannedProbe& probe) {
  if (probe.is_on_a_way) return Tactic::on_the_ways;
  if (patch.hole) return patch.hole->evicted ? Tactic::short_jump_to_room : Tactic::short_jump_to_padding;
  if (patch.window.start < probe.address.value) return Tactic::absorbing;
  return patch.window.padding != 0 ? Tactic::into_padding : Tactic::in_place;
}

ImagePlan plan_image(TextFacts& facts, std::span<const SiteRequest> sites) {
  return ImagePlanner(facts, sites).run();
}

}  // namespace uscope::engine::inproc
