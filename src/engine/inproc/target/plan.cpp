#include "engine/inproc/target/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

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
  ImagePlanner(TextFacts& facts, std::span<const SiteRequest> sites) : facts_(facts), sites_(sites) {}

  ImagePlan run();

 private:
  void plan_function(const FunctionFacts& facts, std::span<const size_t> sites);
  void take(Draft&& draft, const Flow& flow);
  std::optional<PatchPlan::Hole> find_hole(const Window& window, const Flow& flow) const;
  std::optional<PatchPlan::Hole> usable(ImageAddr address, Bytes filler, uint64_t from) const;

  TextFacts& facts_;
  std::span<const SiteRequest> sites_;
  ImagePlan plan_;
  Taken taken_;
  // Short jumps look for their holes last, when all windows are known. Their functions' flows stay for that.
  std::vector<std::pair<Draft, size_t>> waiting_;
  std::vector<Flow> flows_;
};

// A jump of two bytes reaches 127 bytes ahead and 128 back.
std::optional<PatchPlan::Hole> ImagePlanner::usable(ImageAddr address, Bytes filler, uint64_t from) const {
  for (uint64_t at = 0; at + x86::near_jump_size <= filler.size(); ++at) {
    const ImageAddr here = address + at;
    if (!x86::encode_short_jump(from, here.value)) continue;
    if (taken_.overlaps(here.value, here.value + x86::near_jump_size)) continue;
    return PatchPlan::Hole{here, filler.subspan(at, x86::near_jump_size)};
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
      waiting_.emplace_back(std::move(draft), flows_.size());
      is_needed_later = true;
    }
  }
  if (is_needed_later) flows_.push_back(std::move(flow));
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
    // A `.cold` part's sites come apart from its function's own.
    const uint64_t site = sites_[order[first]].address.value;
    for (const x86::CodeRange& part : facts->code.parts)
      while (part.contains(site) && end < order.size() && part.contains(sites_[order[end]].address.value))
        ++end;
    plan_function(*facts, std::span(order).subspan(first, end - first));
    first = end;
  }
  for (auto& [draft, flow] : waiting_) {
    auto hole = find_hole(draft.window, flows_[flow]);
    if (!hole) {
      for (const PlannedProbe& probe : draft.probes)
        plan_.refused.push_back(
            {probe.site,
             fmt::format("there is room for a 2-byte jump at {:#x} only, and no filler within its "
                         "reach to go on from",
                         draft.window.start)});
      continue;
    }
    taken_.add(hole->address.value, hole->address.value + x86::near_jump_size);
    take(std::move(draft), flows_[flow]);
    plan_.patches.back().hole = *hole;
  }
  std::ranges::sort(plan_.patches, {}, [](const PatchPlan& p) { return p.window.start; });
  return std::move(plan_);
}

}  // namespace

ImagePlan plan_image(TextFacts& facts, std::span<const SiteRequest> sites) {
  return ImagePlanner(facts, sites).run();
}

}  // namespace uscope::engine::inproc
