#include "engine/inproc/target/deployment.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>

#include "engine/inproc/target/known_memory.h"

namespace uscope::engine::inproc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kClusterReach = uint64_t(1) << 30;
constexpr uint64_t kStubsAlignment = 64;

uint64_t since(Clock::time_point began) { return uint64_t((Clock::now() - began).count()); }

uint64_t stubs_offset(const MemoryPlan& plan) {
  return (plan.code_bytes + kStubsAlignment - 1) / kStubsAlignment * kStubsAlignment;
}

Status write_all(const Fd& memory, Bytes bytes, uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t put = ::pwrite(memory.get(), bytes.data(), bytes.size(), off_t(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return fail(Error::from_errno("writing code for the target", errno));
    bytes = bytes.subspan(size_t(put));
    offset += uint64_t(put);
  }
  return {};
}

}  // namespace

// All sites of one file, whichever attachment they are of.
struct Deployment::PlannedFile {
  std::string name;
  TextFacts* facts = nullptr;
  std::vector<SiteRequest> sites;
  std::vector<FileOffset> offsets;
  std::set<FileOffset> semaphores;
  struct Origin {
    size_t attachment, site;
  };
  std::vector<Origin> origins;  // beside `sites`
  ImagePlan plan;

  void refuse(AttachReport& report, size_t site, std::string why) const {
    report.failures.push_back({origins[site].attachment, origins[site].site, Error(std::move(why))});
  }
  void make_plan(AttachReport& report);
};

// A return probe with some of its exits would count some of the calls: where one is refused, so are the
// others, and the rest is planned without them.
void Deployment::PlannedFile::make_plan(AttachReport& report) {
  plan = plan_image(*facts, sites);
  std::map<uint64_t, const SiteRefusal*> incomplete;  // by cookie
  std::set<size_t> refused;
  for (const SiteRefusal& refusal : plan.refused) {
    refuse(report, refusal.site, refusal.reason);
    refused.insert(refusal.site);
    if (sites[refusal.site].needs_all) incomplete.try_emplace(sites[refusal.site].cookie, &refusal);
  }
  if (incomplete.empty()) return;
  PlannedFile rest{name, facts, {}, {}, semaphores, {}, {}};
  for (size_t i = 0; i < sites.size(); ++i) {
    if (refused.contains(i)) continue;
    auto without = incomplete.find(sites[i].cookie);
    if (sites[i].needs_all && without != incomplete.end()) {
      refuse(report, i, without->second->reason);
      continue;
    }
    rest.sites.push_back(sites[i]);
    rest.offsets.push_back(offsets[i]);
    rest.origins.push_back(origins[i]);
  }
  // With fewer sites there is no less room than before.
  rest.make_plan(report);
  *this = std::move(rest);
}

Result<std::unique_ptr<Deployment>> Deployment::start(pid_t pid, const TargetCode& code) {
  TRY(Guardian guardian, Guardian::start(pid));
  std::unique_ptr<Deployment> deployment(new Deployment(pid, code, std::move(guardian)));
  TRY_STATUS(deployment->map_memory());
  return deployment;
}

Deployment::~Deployment() {
  if (!shared_.empty()) ::munmap(shared_.data(), shared_.size());
}

Status Deployment::map_memory() {
  using Use = PieceRequest::Use;
  const MemoryPlan& plan = code_.plan();
  AreaRequest request;
  request.pieces = {{Use::shared_data, plan.shared_bytes, {}}, {Use::private_data, plan.private_bytes, {}}};
  TRY(Surgeon::Mapped mapped, guardian_.map(request));
  timing_.add_stop(mapped.stopped_ns);
  places_.shared = mapped.pieces[0].where.start;
  places_.private_memory = mapped.pieces[1].where.start;
  places_.known = find_known_memory(pid_);
  void* here = ::mmap(nullptr, plan.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapped.memory.get(),
                      off_t(mapped.pieces[0].memfd_offset));
  if (here == MAP_FAILED) return fail(Error::from_errno("mapping the memory shared with the target", errno));
  shared_ = {static_cast<uint8_t*>(here), plan.shared_bytes};
  return code_.prepare_shared(shared_);
}

Result<std::vector<Deployment::PlannedFile>> Deployment::plan_files(
    const std::vector<Attachment>& attachments, const FactsSource& facts, AttachReport& report) const {
  std::vector<PlannedFile> files;
  std::map<std::string, size_t> by_name;
  for (size_t a = 0; a < attachments.size(); ++a) {
    const Attachment& attachment = attachments[a];
    if (attachment.kind != Attachment::Kind::UserProbe) continue;
    auto [known, is_new] = by_name.try_emplace(attachment.file, files.size());
    if (is_new) {
      TRY(TextFacts * found, facts(attachment.file));
      files.push_back({attachment.file, found, {}, {}, {}, {}, {}});
    }
    PlannedFile& file = files[known->second];
    for (size_t s = 0; s < attachment.sites.size(); ++s) {
      const Site& site = attachment.sites[s];
      auto address = file.facts->address_of(site.offset);
      if (!address) {
        report.failures.push_back({a, s, Error("it is in no part of the file that is loaded")});
        continue;
      }
      file.sites.push_back({*address, attachment.code, site.cookie, site.only_if, site.needs_all});
      file.offsets.push_back(site.offset);
      if (site.semaphore) file.semaphores.insert(*site.semaphore);
      file.origins.push_back({a, s});
    }
  }
  for (PlannedFile& file : files) file.make_plan(report);
  return files;
}

std::vector<Deployment::Target> Deployment::find_targets(std::vector<PlannedFile>& files,
                                                         const process::Maps& maps,
                                                         AttachReport& report) const {
  std::vector<Target> targets;
  for (size_t f = 0; f < files.size(); ++f) {
    PlannedFile& file = files[f];
    bool is_loaded = false;
    for (const Loading& loading : find_loadings(pid_, maps, file.name)) {
      // Every site of a loading is shifted by the same amount: ask for the first that is mapped.
      for (size_t s = 0; s < file.sites.size(); ++s) {
        auto at = loading.code_at(file.offsets[s]);
        if (!at) continue;
        const LoadedCode code{at->value - file.sites[s].address.value, loading.code()};
        targets.push_back({f, loading.span(), code, 0, {}});
        for (FileOffset semaphore : file.semaphores)
          if (auto place = loading.data_at(semaphore)) targets.back().semaphores.push_back(*place);
        is_loaded = true;
        break;
      }
    }
    if (is_loaded || file.sites.empty()) continue;
    for (size_t s = 0; s < file.sites.size(); ++s)
      file.refuse(report, s, fmt::format("process {} has not loaded it", pid_));
    file.plan.patches.clear();
  }
  return targets;
}

std::vector<Deployment::Cluster> Deployment::cluster(std::vector<Target>& targets,
                                                     const std::vector<PlannedFile>& files) const {
  std::ranges::sort(targets, {}, [](const Target& t) { return t.text.start; });
  const auto emitter = code_.emitter({0});
  std::vector<Cluster> clusters;
  for (Target& target : targets) {
    const bool fits = !clusters.empty() && target.text.end() - clusters.back().text.start <= kClusterReach;
    if (!fits) clusters.push_back({target.text, 0, {}});
    Cluster& into = clusters.back();
    into.text.size = std::max(into.text.end(), target.text.end()) - into.text.start;
    const PlannedFile& file = files[target.file];
    into.stub_bytes += most_stub_bytes(file.plan, file.sites, *emitter);
    target.cluster = clusters.size() - 1;
  }
  return clusters;
}

Result<Fd> Deployment::map_clusters(std::vector<Cluster>& clusters, size_t patches) {
  AreaRequest request;
  request.most_patches = patches;
  for (const Cluster& cluster : clusters)
    request.pieces.push_back(
        {PieceRequest::Use::code, stubs_offset(code_.plan()) + cluster.stub_bytes, cluster.text});
  TRY(Surgeon::Mapped mapped, guardian_.map(request));
  timing_.add_stop(mapped.stopped_ns);
  for (size_t i = 0; i < clusters.size(); ++i) clusters[i].piece = mapped.pieces[i];
  return std::move(mapped.memory);
}

Status Deployment::install(const std::vector<PlannedFile>& files, const std::vector<Target>& targets,
                           const std::vector<Cluster>& clusters, const Fd& memory, AttachReport& report) {
  const Clock::time_point began = Clock::now();
  TRY(process::RemoteMemory remote, process::RemoteMemory::open(pid_));
  std::vector<Patch> patches;
  std::vector<GoRuntime> go_runtimes;
  for (const Target& target : targets)
    if (auto go = files[target.file].facts->go_facts())
      go_runtimes.push_back({{go->all_goroutines.value + target.loaded.bias},
                             {{go->preempt2.value + target.loaded.bias}, go->preempt2_size}});
  std::vector<ProcessAddr> semaphores;
  for (const Target& target : targets)
    semaphores.insert(semaphores.end(), target.semaphores.begin(), target.semaphores.end());
  struct Served {
    ProcessAddr patch;
    size_t file, site;
  };
  std::vector<Served> served;
  for (size_t c = 0; c < clusters.size(); ++c) {
    const ProcessAddr area_at = clusters[c].piece.where.start;
    const uint64_t offset = clusters[c].piece.memfd_offset;
    TRY(std::vector<uint8_t> fixed, code_.code_area(area_at, places_));
    TRY_STATUS(write_all(memory, fixed, offset));
    const auto emitter = code_.emitter(area_at);
    const uint64_t stubs_at = stubs_offset(code_.plan());
    StubArea area{area_at + stubs_at, clusters[c].stub_bytes};
    for (const Target& target : targets) {
      if (target.cluster != c) continue;
      const PlannedFile& file = files[target.file];
      BuiltPatches built = build_patches(file.plan, file.sites, target.loaded, remote, *emitter, area);
      for (SiteRefusal& refusal : built.refused) file.refuse(report, refusal.site, std::move(refusal.reason));
      for (const auto& [patch, site] : built.sites_at) served.push_back({patch, target.file, site});
      patches.insert(patches.end(), std::make_move_iterator(built.patches.begin()),
                     std::make_move_iterator(built.patches.end()));
    }
    TRY_STATUS(write_all(memory, area.bytes, offset + stubs_at));
  }
  // From here on the probes are on.
  TRY_STATUS(remote.write(places_.private_memory, code_.private_header(places_)));
  std::ranges::sort(patches, {}, &Patch::address);
  timing_.building_ns = since(began);
  TRY(InstallReport installed, guardian_.install(patches, go_runtimes, semaphores));
  timing_.add_stop(installed.stopped_ns);
  timing_.moved_threads = installed.moved_threads;
  timing_.moved_frames = installed.moved_frames;
  for (const InstallReport::Refusal& refusal : installed.refused)
    for (const Served& each : served)
      if (each.patch == patches[refusal.patch].address)
        files[each.file].refuse(report, each.site, refusal.reason);
  return {};
}

Result<AttachReport> Deployment::attach(const std::vector<Attachment>& attachments,
                                        const FactsSource& facts) {
  AttachReport report;
  const Clock::time_point began = Clock::now();
  TRY(auto files, plan_files(attachments, facts, report));
  TRY(process::Maps maps, process::Maps::of(pid_));
  std::vector<Target> targets = find_targets(files, maps, report);
  std::vector<Cluster> clusters = cluster(targets, files);
  timing_.planning_ns = since(began);
  size_t patches = 0;
  for (const Target& target : targets) patches += 2 * files[target.file].plan.patches.size();
  if (patches > 0) {
    TRY(Fd memory, map_clusters(clusters, patches));
    TRY_STATUS(install(files, targets, clusters, memory, report));
  }
  // A site that fails in one loading of its file has failed, even if it sits in another.
  std::ranges::sort(report.failures, {},
                    [](const AttachFailure& f) { return std::pair(f.attachment, f.site); });
  const auto same = std::ranges::unique(report.failures, [](const AttachFailure& a, const AttachFailure& b) {
    return a.attachment == b.attachment && a.site == b.site;
  });
  report.failures.erase(same.begin(), same.end());
  size_t asked = 0;
  for (const Attachment& attachment : attachments)
    if (attachment.kind == Attachment::Kind::UserProbe) asked += attachment.sites.size();
  report.attached_sites = asked - report.failures.size();
  report.remarks.push_back(timing_.text());
  return report;
}

std::string Deployment::Timing::text() const {
  auto ms = [](uint64_t ns) { return double(ns) / 1e6; };
  return fmt::format(
      "planned in {:.1f} ms, code made in {:.1f} ms; the process was stopped {} times for {:.2f} ms in all, "
      "at "
      "most {:.2f} ms at once; {} threads and {} saved places were moved",
      ms(planning_ns), ms(building_ns), stops, ms(stopped_ns), ms(longest_stop_ns), moved_threads,
      moved_frames);
}

Result<RemoveReport> Deployment::detach() { return guardian_.remove(); }

}  // namespace uscope::engine::inproc
