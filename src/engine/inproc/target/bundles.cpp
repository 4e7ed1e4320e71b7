#include "engine/inproc/target/bundles.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace uscope::engine::inproc {
namespace {

// What ties patches together: a cookie's exits, or a site.
using Tie = std::pair<bool, uint64_t>;

class Bundler {
 public:
  Bundler(BuiltPatches& built, std::span<const SiteRequest> sites) : built_(built), sites_(sites) {}
  void run();

 private:
  Tie tie_of(size_t site) const {
    return sites_[site].needs_all ? Tie(true, sites_[site].cookie) : Tie(false, site);
  }
  ProcessAddr leader_of(ProcessAddr patch);
  void join_all();
  void take_out_incomplete();

  BuiltPatches& built_;
  std::span<const SiteRequest> sites_;
  std::map<Tie, ProcessAddr> first_;             // a patch of each
  std::map<ProcessAddr, ProcessAddr> followed_;  // a patch of the same bundle; itself: it leads
};

ProcessAddr Bundler::leader_of(ProcessAddr patch) {
  ProcessAddr& next = followed_.try_emplace(patch, patch).first->second;
  if (next != patch) next = leader_of(next);
  return next;
}

// Most sites are entries, each with a patch of its own: nothing is kept of those.
void Bundler::join_all() {
  std::vector<uint8_t> patches_of(sites_.size());
  for (const auto& [patch, site] : built_.sites_at) patches_of[site] |= patches_of[site] == 0 ? 1 : 2;
  for (const SiteRefusal& refusal : built_.refused) patches_of[refusal.site] |= 2;
  for (const auto& [patch, site] : built_.sites_at) {
    if (!sites_[site].needs_all && (patches_of[site] & 2) == 0) continue;
    const ProcessAddr leader = leader_of(first_.try_emplace(tie_of(site), patch).first->second);
    followed_[leader_of(patch)] = leader;
  }
}

void Bundler::take_out_incomplete() {
  std::map<ProcessAddr, std::string> incomplete;  // by leader
  for (const SiteRefusal& refusal : built_.refused)
    if (auto found = first_.find(tie_of(refusal.site)); found != first_.end())
      incomplete.try_emplace(leader_of(found->second), refusal.reason);
  if (incomplete.empty()) return;
  auto why_out = [&](ProcessAddr patch) -> const std::string* {
    if (!followed_.contains(patch)) return nullptr;
    auto found = incomplete.find(leader_of(patch));
    return found == incomplete.end() ? nullptr : &found->second;
  };
  std::erase_if(built_.sites_at, [&](const auto& served) {
    const std::string* why = why_out(served.first);
    if (why != nullptr) built_.refused.push_back({served.second, *why});
    return why != nullptr;
  });
  std::set<ProcessAddr> unused_holes;
  for (const Patch& patch : built_.patches)
    if (patch.via.value != 0 && why_out(patch.address) != nullptr) unused_holes.insert(patch.via);
  std::erase_if(built_.patches, [&](const Patch& patch) {
    const bool is_hole = patch.hole_offset && unused_holes.contains(patch.address + *patch.hole_offset);
    return is_hole || why_out(patch.address) != nullptr;
  });
}

void Bundler::run() {
  join_all();
  if (first_.empty()) return;
  take_out_incomplete();
  for (Patch& patch : built_.patches)
    if (followed_.contains(patch.address)) patch.bundle = leader_of(patch.address);
}

}  // namespace

void bundle(BuiltPatches& built, std::span<const SiteRequest> sites) { Bundler(built, sites).run(); }

}  // namespace uscope::engine::inproc
