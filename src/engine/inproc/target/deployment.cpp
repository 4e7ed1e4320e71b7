#include "engine/inproc/target/deployment.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>

#include "engine/inproc/runtime/layout.h"
#include "engine/inproc/target/bundles.h"
#include "engine/inproc/target/known_memory.h"
#include "process/info.h"
#include "process/load_gate.h"

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

// What is in one file, holes left out, into another of the same size.
Status copy_data(const Fd& from, const Fd& to, uint64_t size) {
  std::vector<uint8_t> buffer(uint64_t(1) << 20);
  for (off_t at = 0; uint64_t(at) < size;) {
    at = ::lseek(from.get(), at, SEEK_DATA);
    if (at < 0) return errno == ENXIO ? Status() : fail(Error::from_errno("keeping the maps", errno));
    const off_t end = std::min(::lseek(from.get(), at, SEEK_HOLE), off_t(size));
    while (at < end) {
      const auto wanted = std::min<size_t>(buffer.size(), size_t(end - at));
      const ssize_t got = ::pread(from.get(), buffer.data(), wanted, at);
      if (got <= 0) return fail(Error::from_errno("keeping the maps", errno));
      TRY_STATUS(write_all(to, Bytes(buffer).first(size_t(got)), uint64_t(at)));
      at += got;
    }
  }
  return {};
}

}  // namespace

// A return probe with some of its exits would count some of the calls: where one is refused, so are the
// others. The patches of the rest do not depend on theirs.
void Deployment::PlannedFile::make_plan(AttachReport& report) {
  plan = plan_image(*facts, sites);
  std::map<uint64_t, const SiteRefusal*> incomplete;  // by cookie
  std::vector<bool> is_refused(sites.size());
  for (const SiteRefusal& refusal : plan.refused) {
    refuse(report, refusal.site, refusal.reason);
    is_refused[refusal.site] = true;
    if (sites[refusal.site].needs_all) incomplete.try_emplace(sites[refusal.site].cookie, &refusal);
  }
  if (incomplete.empty()) return;
  for (size_t i = 0; i < sites.size(); ++i) {
    if (is_refused[i] || !sites[i].needs_all) continue;
    auto without = incomplete.find(sites[i].cookie);
    if (without == incomplete.end()) continue;
    refuse(report, i, without->second->reason);
    is_refused[i] = true;
  }
  plan.drop(is_refused);
}

Result<std::unique_ptr<Deployment>> Deployment::start(pid_t pid, const TargetCode& code,
                                                      const std::vector<Attachment>& attachments,
                                                      const FactsSource& facts) {
  TRY(Guardian guardian, Guardian::start(pid));
  std::unique_ptr<Deployment> deployment(new Deployment(pid, code, std::move(guardian)));
  if (!attachments.empty()) TRY_STATUS(deployment->plan(attachments, facts));
  TRY(Fd memory, deployment->map_memory());
  TRY_STATUS(deployment->share(std::move(memory)));
  TRY_STATUS(code.prepare_shared(deployment->shared_));
  return deployment;
}

Deployment::~Deployment() {
  if (!shared_.empty()) ::munmap(shared_.data(), shared_.size());
}

// What is shared comes first in the memory that is handed back.
Result<Fd> Deployment::map_memory(const Fd& shared) {
  using Use = PieceRequest::Use;
  const MemoryPlan& plan = code_.plan();
  AreaRequest request;
  if (!files_.empty()) {
    TRY(process::Maps maps, process::Maps::of(pid_));
    std::vector<Target> targets = find_targets(maps);
    reserved_ = cluster(targets);
    request = request_for(reserved_, records_of(targets));
  }
  request.pieces.insert(request.pieces.begin(), {{Use::shared_data, plan.shared_bytes, {}},
                                                 {Use::private_data, plan.private_bytes, {}, kWipedBytes}});
  request.system_calls = plan.system_calls;
  TRY(Surgeon::Mapped mapped, guardian_->map(request, shared));
  timing_.add_stop(mapped.stopped_ns);
  for (size_t i = 0; i < reserved_.size(); ++i) reserved_[i].piece = mapped.pieces[2 + i];
  places_.shared = mapped.pieces[0].where.start;
  places_.private_memory = mapped.pieces[1].where.start;
  places_.known = find_known_memory(pid_);
  TRY(const process::ProcessInfo info, process::read_process(pid_));
  places_.pid = uint32_t(info.own_pid());
  places_.load_gate.reset();
  TRY(remote_, process::RemoteMemory::open(pid_));
  return std::move(mapped.memory);
}

// At the same place as before: others keep addresses of what is in it.
Status Deployment::share(Fd memory) {
  const uint64_t size = code_.plan().shared_bytes;
  const int flags = MAP_SHARED | (shared_.empty() ? 0 : MAP_FIXED);
  void* here = ::mmap(shared_.data(), size, PROT_READ | PROT_WRITE, flags, memory.get(), 0);
  if (here == MAP_FAILED) return fail(Error::from_errno("mapping the memory shared with the target", errno));
  // What we fork ourselves, a guardian above all, has no part in it.
  ::madvise(here, size, MADV_DONTFORK);
  ::madvise(here, size, MADV_NOHUGEPAGE);
  shared_ = {static_cast<uint8_t*>(here), size};
  memory_ = std::move(memory);
  return {};
}

bool Deployment::has_targets_of(size_t attachments) const {
  return std::ranges::any_of(targets_, [&](const Target& target) {
    return std::ranges::any_of(files_[target.file].origins, [&](const PlannedFile::Origin& origin) {
      return origin.attachment < attachments;
    });
  });
}

bool Deployment::is_in_place() const {
  return remote_ && remote_->read_value<uint64_t>(places_.private_memory).has_value();
}

Status Deployment::move_on() {
  targets_.clear();
  files_.clear();
  planned_.reset();
  reserved_.clear();
  is_on_ = false;
  if (!descendants().empty()) {
    // They go on with what they have, and the guardian looks after them. (Needs Linux 5.6.)
    guardian_->start_over();
    earlier_places_.push_back(places_);
    TRY([[maybe_unused]] Fd of_journal, map_memory(memory_));
    return {};
  }
  // There is nothing left to be taken out by the guardian of what was: it ends.
  earlier_places_.clear();
  TRY(Guardian guardian, Guardian::start(pid_));
  guardian_ = std::make_unique<Guardian>(std::move(guardian));
  TRY(Fd memory, map_memory());
  TRY_STATUS(copy_data(memory_, memory, shared_.size()));
  return share(std::move(memory));
}

Result<EndedThreads> Deployment::take_from_ended(pid_t pid, const std::vector<uint32_t>& numbers) {
  auto ended = guardian_->take_from_ended({pid, places_.private_memory, places_.shared, numbers});
  for (size_t i = 0; !ended && i < earlier_places_.size(); ++i)
    ended = guardian_->take_from_ended(
        {pid, earlier_places_[i].private_memory, earlier_places_[i].shared, numbers});
  return ended;
}

std::optional<bool> Deployment::is_shared_with(pid_t pid) const {
  struct stat info {};
  if (::fstat(memory_.get(), &info) != 0) return std::nullopt;
  return maps_file(pid, info.st_ino);
}

std::vector<pid_t> Deployment::descendants() const {
  struct stat info {};
  if (!memory_.is_open() || ::fstat(memory_.get(), &info) != 0) return {};
  std::vector<pid_t> found = processes_that_map(info.st_ino, pid_);
  std::erase(found, ::getpid());
  return found;
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
      file.sites.push_back({*address, attachment.code, site.cookie, site.only_if, site.needs_all,
                            code_.read_at_entry(attachment.code)});
      file.offsets.push_back(site.offset);
      if (site.semaphore) file.semaphores.insert(*site.semaphore);
      file.origins.push_back({a, s});
    }
  }
  const auto emitter = code_.emitter({0});
  for (PlannedFile& file : files) {
    file.make_plan(report);
    file.stub_bytes = most_stub_bytes(file.plan, file.sites, *emitter);
  }
  return files;
}

// Those that are not in place yet.
std::vector<Deployment::Target> Deployment::find_targets(const process::Maps& maps) const {
  std::vector<Target> targets;
  for (size_t f = 0; f < files_.size(); ++f) {
    const PlannedFile& file = files_[f];
    if (file.plan.patches.empty()) continue;
    for (const Loading& loading : find_loadings(pid_, maps, file.name)) {
      const bool is_known = std::ranges::any_of(targets_, [&](const Target& known) {
        return known.file == f && known.text.start == loading.span().start;
      });
      if (is_known) continue;
      // Every site of a loading is shifted by the same amount: ask for the first that is mapped.
      for (size_t s = 0; s < file.sites.size(); ++s) {
        auto at = loading.code_at(file.offsets[s]);
        if (!at) continue;
        const LoadedCode code{at->value - file.sites[s].address.value, loading.code()};
        targets.push_back({f, loading.span(), code, 0, {}, {}});
        for (FileOffset semaphore : file.semaphores)
          if (auto place = loading.data_at(semaphore)) targets.back().semaphores.push_back(*place);
        break;
      }
    }
  }
  return targets;
}

bool Deployment::is_loaded(size_t file) const {
  return std::ranges::any_of(targets_, [&](const Target& target) { return target.file == file; });
}

std::vector<Deployment::Cluster> Deployment::cluster(std::vector<Target>& targets) const {
  std::ranges::sort(targets, {}, [](const Target& t) { return t.text.start; });
  std::vector<Cluster> clusters;
  for (Target& target : targets) {
    const bool fits = !clusters.empty() && target.text.end() - clusters.back().text.start <= kClusterReach;
    if (!fits) clusters.push_back({target.text, 0, {}});
    Cluster& into = clusters.back();
    into.text.size = std::max(into.text.end(), target.text.end()) - into.text.start;
    into.stub_bytes += files_[target.file].stub_bytes;
    target.cluster = clusters.size() - 1;
  }
  return clusters;
}

size_t Deployment::records_of(const std::vector<Target>& targets) const {
  size_t records = 0;
  for (const Target& target : targets)
    records += 2 * files_[target.file].plan.patches.size() + target.semaphores.size();
  return records;
}

AreaRequest Deployment::request_for(const std::vector<Cluster>& clusters, size_t records) const {
  constexpr size_t kGatePatches = 2;
  AreaRequest request;
  request.system_calls = code_.plan().system_calls;
  request.most_patches = records + kGatePatches;
  for (const Cluster& cluster : clusters)
    request.pieces.push_back(
        {PieceRequest::Use::code, stubs_offset(code_.plan()) + cluster.stub_bytes, cluster.text});
  return request;
}

// False: what is loaded has changed since.
bool Deployment::take_reserved(std::vector<Cluster>& clusters) {
  const std::vector<Cluster> reserved = std::exchange(reserved_, {});
  const bool is_same = std::ranges::equal(reserved, clusters, [](const Cluster& a, const Cluster& b) {
    return a.text == b.text && a.stub_bytes == b.stub_bytes;
  });
  if (is_same) clusters = reserved;
  return is_same;
}

Result<Fd> Deployment::map_clusters(std::vector<Cluster>& clusters, size_t records, bool can_wait) {
  AreaRequest request = request_for(clusters, records);
  request.can_wait = can_wait;
  TRY(Surgeon::Mapped mapped, guardian_->map(request));
  timing_.add_stop(mapped.stopped_ns);
  for (size_t i = 0; i < clusters.size(); ++i) clusters[i].piece = mapped.pieces[i];
  return std::move(mapped.memory);
}

// The process's memory can be read through it once these are in place.
std::vector<Patch> Deployment::load_gate_patches() const {
  auto gate = code_.plan().reads_memory ? process::find_load_gate() : std::nullopt;
  auto maps = process::Maps::of(pid_);
  const process::Mapping* vdso = gate && maps ? maps->find_path("[vdso]") : nullptr;
  if (vdso == nullptr || vdso->size() < gate->load + gate->load_original.size()) return {};
  auto patch_of = [&](uint32_t offset, Bytes original, Bytes replacement) {
    Patch patch;
    patch.address = vdso->start + offset;
    patch.size = uint8_t(original.size());
    patch.goes_last = true;
    std::ranges::copy(original, patch.original.begin());
    std::ranges::copy(replacement, patch.replacement.begin());
    return patch;
  };
  return {patch_of(gate->load, gate->load_original, process::LoadGate::load_code),
          patch_of(gate->landing, gate->landing_original, process::LoadGate::landing_code)};
}

Status Deployment::open_load_gate(ProcessAddr gate, process::RemoteMemory& remote) {
  places_.load_gate = gate;
  code_.tell_children(shared_, places_);
  const ProcessAddr word = places_.private_memory + offsetof(PrivateHeader, known.load_gate);
  return remote.write(word, as_bytes({reinterpret_cast<const char*>(&gate.value), sizeof gate.value}));
}

Status Deployment::install(std::vector<Target>& targets, const std::vector<Cluster>& clusters,
                           const Fd& memory, AttachReport& report) {
  const Clock::time_point began = Clock::now();
  TRY(process::RemoteMemory remote, process::RemoteMemory::open(pid_));
  std::vector<Patch> patches;
  std::vector<GoRuntime> go_runtimes;
  for (const Target& target : targets)
    if (auto go = files_[target.file].facts->go_facts())
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
    for (Target& target : targets) {
      if (target.cluster != c) continue;
      const PlannedFile& file = files_[target.file];
      BuiltPatches built = build_patches(file.plan, file.sites, target.loaded, remote, *emitter, area);
      bundle(built, file.sites);
      for (SiteRefusal& refusal : built.refused) file.refuse(report, refusal.site, std::move(refusal.reason));
      for (const auto& [patch, site] : built.sites_at) served.push_back({patch, target.file, site});
      if (!built.patches.empty()) target.sample = built.patches.front();
      patches.insert(patches.end(), std::make_move_iterator(built.patches.begin()),
                     std::make_move_iterator(built.patches.end()));
    }
    TRY_STATUS(write_all(memory, area.bytes, offset + stubs_at));
  }
  // From here on the probes are on. Only once: threads change what is in it.
  const bool is_first = !is_on_;
  if (is_first) TRY_STATUS(remote.write(places_.private_memory, code_.private_header(places_)));
  if (is_first) code_.tell_children(shared_, places_);
  is_on_ = true;
  const std::vector<Patch> gate = is_first ? load_gate_patches() : std::vector<Patch>();
  patches.insert(patches.end(), gate.begin(), gate.end());
  std::ranges::sort(patches, {}, &Patch::address);
  timing_.building_ns = since(began);
  TRY(InstallReport installed, guardian_->install(patches, go_runtimes, semaphores));
  timing_.add_stop(installed.stopped_ns);
  timing_.moved_threads = installed.moved_threads;
  timing_.moved_frames = installed.moved_frames;
  const bool has_gate = !gate.empty() && std::ranges::none_of(installed.refused, [&](const auto& refusal) {
    return patches[refusal.patch].goes_last;
  });
  if (has_gate) TRY_STATUS(open_load_gate(gate.front().address, remote));
  for (const InstallReport::Refusal& refusal : installed.refused)
    for (Target& target : targets)
      if (target.sample.address == patches[refusal.patch].address) target.sample = {};
  for (const InstallReport::Refusal& refusal : installed.refused)
    for (const Served& each : served)
      if (each.patch == patches[refusal.patch].address)
        files_[each.file].refuse(report, each.site, refusal.reason);
  return {};
}

// Whatever of the files is loaded and not in place yet.
Status Deployment::bring_in(AttachReport& report, bool can_wait) {
  TRY(process::Maps maps, process::Maps::of(pid_));
  std::vector<Target> targets = find_targets(maps);
  std::vector<Cluster> clusters = cluster(targets);
  const size_t records = records_of(targets);
  if (records == 0) return {};
  Fd memory;
  const bool is_reserved = take_reserved(clusters);
  if (!is_reserved) {
    TRY(memory, map_clusters(clusters, records, can_wait));
  }
  TRY_STATUS(install(targets, clusters, is_reserved ? memory_ : memory, report));
  std::ranges::move(targets, std::back_inserter(targets_));
  return {};
}

Result<size_t> Deployment::forget_unloaded(const process::Maps& maps) {
  TRY(process::RemoteMemory remote, process::RemoteMemory::open(pid_));
  std::vector<AddressSpan> gone;
  std::erase_if(targets_, [&](const Target& target) {
    bool is_there = std::ranges::any_of(
        find_loadings(pid_, maps, files_[target.file].name),
        [&](const Loading& loading) { return loading.span().start == target.text.start; });
    if (is_there && target.sample.size != 0) {
      std::vector<uint8_t> now(target.sample.size);
      is_there = remote.read(target.sample.address, now) && target.sample.is_in(now);
    }
    if (!is_there) gone.push_back(target.text);
    return !is_there;
  });
  if (!gone.empty()) TRY_STATUS(guardian_->forget(gone));
  return gone.size();
}

Result<Deployment::Changes> Deployment::catch_up() {
  Changes changes;
  TRY(process::Maps maps, process::Maps::of(pid_));
  TRY(changes.unloaded, forget_unloaded(maps));
  AttachReport report;
  const size_t before = targets_.size();
  TRY_STATUS(bring_in(report));
  changes.loaded = targets_.size() - before;
  changes.failures = std::move(report.failures);
  return changes;
}

Status Deployment::plan(const std::vector<Attachment>& attachments, const FactsSource& facts) {
  AttachReport report;
  const Clock::time_point began = Clock::now();
  TRY(files_, plan_files(attachments, facts, report));
  timing_.planning_ns = since(began);
  planned_ = std::move(report.failures);
  planned_sites_ = 0;
  for (const Attachment& attachment : attachments)
    if (attachment.kind == Attachment::Kind::UserProbe) planned_sites_ += attachment.sites.size();
  return {};
}

Result<std::vector<AttachFailure>> Deployment::foresee() const {
  AttachReport report;
  report.failures = planned_.value_or(std::vector<AttachFailure>());
  TRY(process::Maps maps, process::Maps::of(pid_));
  TRY(process::RemoteMemory remote, process::RemoteMemory::open(pid_));
  for (const Target& target : find_targets(maps)) {
    const PlannedFile& file = files_[target.file];
    for (SiteRefusal& refusal : changed_code(file.plan, target.loaded, remote))
      file.refuse(report, refusal.site, std::move(refusal.reason));
  }
  return std::move(report.failures);
}

Result<AttachReport> Deployment::attach() {
  if (!planned_) return fail("attaching without a plan");
  AttachReport report;
  report.failures = std::move(*planned_);
  planned_.reset();
  TRY_STATUS(bring_in(report));
  for (size_t f = 0; f < files_.size(); ++f)
    if (!files_[f].plan.patches.empty() && !is_loaded(f)) report.awaited_files.push_back(files_[f].name);
  // A site that fails in one loading of its file has failed, even if it sits in another.
  std::ranges::sort(report.failures, {},
                    [](const AttachFailure& f) { return std::pair(f.attachment, f.site); });
  const auto same = std::ranges::unique(report.failures, [](const AttachFailure& a, const AttachFailure& b) {
    return a.attachment == b.attachment && a.site == b.site;
  });
  report.failures.erase(same.begin(), same.end());
  report.attached_sites = planned_sites_ - report.failures.size();
  report.remarks.push_back(timing_.text());
  return report;
}

Status Deployment::add(const std::vector<Attachment>& attachments, size_t first, const FactsSource& facts) {
  AttachReport report;
  TRY(std::vector<PlannedFile> files, plan_files(attachments, facts, report));
  for (PlannedFile& file : files)
    for (PlannedFile::Origin& origin : file.origins) origin.attachment += first;
  const size_t before = files_.size();
  std::ranges::move(files, std::back_inserter(files_));
  Status done = bring_in(report, true);
  if (!done) files_.resize(before);
  return done;
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

Result<RemoveReport> Deployment::detach() { return guardian_->remove(); }

}  // namespace uscope::engine::inproc
