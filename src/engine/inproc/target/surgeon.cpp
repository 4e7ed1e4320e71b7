#include "engine/inproc/target/surgeon.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/fd.h"
#include "process/info.h"
#include "process/seccomp_filter.h"

namespace uscope::engine::inproc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRounds = 6;  // of waiting for goroutines, a millisecond first and then twice as long
constexpr process::SeizeOptions kSoon{std::chrono::milliseconds(50), std::chrono::milliseconds(100)};
constexpr auto kOthersPatience = std::chrono::milliseconds(1500);

Result<std::vector<JournalContents>> find_journals(pid_t pid, const process::RemoteMemory& memory) {
  TRY(process::Maps maps, process::Maps::of(pid));
  return Journal::find_all(memory, maps);
}

// What we map counts as the process's own. Of what it may have, we cannot know what it will need.
Status check_limits(pid_t pid) {
  for (auto [limit, name] : {std::pair(RLIMIT_AS, "ulimit -v"), std::pair(RLIMIT_DATA, "ulimit -d")}) {
    rlimit now{};
    if (::prlimit(pid, limit, nullptr, &now) != 0 || now.rlim_cur == RLIM_INFINITY) continue;
    return fail(
        Error(fmt::format("process {} has a limit of {} MB for its memory ({}), of which a trace would take "
                          "more than a thousand",
                          pid, now.rlim_cur >> 20, name))
            .with_hint("use --engine kernel"));
  }
  return {};
}

// Journals of others that are at work are an Error; our own and those of the dead are not.
Status check_owners(pid_t pid, const std::vector<JournalContents>& journals) {
  for (const JournalContents& journal : journals) {
    if (journal.owner == Owner::self()) continue;
    const auto alive = journal.owner.is_alive();
    if (!alive)
      return fail(
          Error(fmt::format("a uscope of another pid namespace (pid {} there) may be tracing process {}",
                            journal.owner.pid, pid))
              .with_hint("end it, or run `uscope detach` where it ran"));
    if (*alive)
      return fail(
          Error(fmt::format("process {} is being traced by another uscope (pid {})", pid, journal.owner.pid))
              .with_hint("one at a time can use the in-process engine; try --engine kernel"));
  }
  return {};
}

}  // namespace

Result<RemoveReport> remove_leftovers(pid_t pid) {
  auto memory = process::RemoteMemory::open(pid);
  if (!memory) {
    TRY(process::ProcessInfo info, process::read_process(pid));
    TRY_STATUS(process::check_may_attach(info));
    return fail(std::move(memory).error());
  }
  TRY(auto journals, find_journals(pid, *memory));
  TRY_STATUS(check_owners(pid, journals));
  std::erase_if(journals, [](const JournalContents& journal) { return journal.owner == Owner::self(); });
  return inproc::remove(pid, journals);
}

Result<Surgeon::Mapped> Surgeon::map(const AreaRequest& request, const Fd& shared) {
  const bool takes_much = std::ranges::any_of(
      request.pieces, [](const PieceRequest& piece) { return piece.use == PieceRequest::Use::private_data; });
  if (takes_much) TRY_STATUS(check_limits(pid_));
  // A uscope that has just ended, or was killed, may still be at work through its guardian.
  const Clock::time_point give_up = Clock::now() + kOthersPatience;
  for (;;) {
    auto mapped = map_once(request, shared);
    if (mapped || Clock::now() >= give_up || !another_is_at_work()) return mapped;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool Surgeon::another_is_at_work() const {
  auto info = process::read_process(pid_);
  if (!info) return false;
  if (info->status.tracer != 0) {
    auto name = read_text_file(fmt::format("/proc/{}/comm", info->status.tracer));
    return name && name->starts_with(guardian_name);
  }
  auto memory = process::RemoteMemory::open(pid_);
  if (!memory) return false;
  auto journals = find_journals(pid_, *memory);
  return journals && !check_owners(pid_, *journals);
}

Result<Surgeon::Mapped> Surgeon::map_once(const AreaRequest& request, const Fd& shared) {
  TRY([[maybe_unused]] RemoveReport leftovers, remove_leftovers(pid_));
  std::optional<Area> area;
  uint64_t stopped_ns = 0;
  const bool has_data = std::ranges::any_of(
      request.pieces, [](const PieceRequest& piece) { return piece.use != PieceRequest::Use::code; });
  const process::SeizeOptions options = request.can_wait ? kSoon : process::SeizeOptions();
  Status done = process::with_seized(pid_, options, [&](process::SeizedProcess& process) -> Status {
    const Clock::time_point began = Clock::now();
    // With the process in our hands nobody else can begin.
    TRY(auto journals, find_journals(pid_, process.memory()));
    TRY_STATUS(check_owners(pid_, journals));
    // Code without data of its own uses what was mapped before, which an exec has taken away.
    if (!has_data && std::ranges::any_of(sessions_, [&](const Session& session) {
          return session.has_data && !session.journal.is_present(process.memory());
        }))
      return fail(fmt::format("process {} has executed another program", pid_));
    TRY_STATUS(process::check_seccomp(process, request.system_calls));
    unmap_retired(process);
    TRY(area, map_area(process, request, shared));
    // Whatever is forked from now on has this memory, and what comes later only besides.
    if (has_data) witnesses_.emplace_back(area->memory, area->journal, process.memory());
    stopped_ns = uint64_t((Clock::now() - began).count());
    return {};
  });
  TRY_STATUS(done);
  Mapped mapped{std::move(area->memory), std::move(area->pieces), stopped_ns};
  sessions_.push_back({area->journal, std::move(area->contents), has_data});
  return mapped;
}

void Surgeon::unmap_retired(process::SeizedProcess& process) {
  std::erase_if(sessions_, [&](const Session& session) {
    if (!session.is_retired) return false;
    auto is_gone = unmap_if_unused(process, session.contents);
    return is_gone && *is_gone;
  });
}

void Surgeon::start_over() {
  for (const Session& session : sessions_)
    earlier_code_.insert(earlier_code_.end(), session.contents.code.begin(), session.contents.code.end());
  sessions_.clear();
}

Status Surgeon::forget(std::span<const AddressSpan> spans) {
  TRY(process::RemoteMemory memory, process::RemoteMemory::open(pid_));
  auto is_gone = [&](ProcessAddr address) {
    return std::ranges::any_of(spans, [&](const AddressSpan& span) { return span.contains(address); });
  };
  for (Session& session : sessions_) {
    if (!session.journal.is_present(memory)) continue;
    TRY_STATUS(session.journal.forget(memory, spans));
    const size_t before = session.contents.patches.size();
    std::erase_if(session.contents.patches, [&](const Patch& patch) { return is_gone(patch.address); });
    std::erase_if(session.contents.semaphores, is_gone);
    session.is_retired |= !session.has_data && before != 0 && session.contents.patches.empty();
  }
  return {};
}

Result<InstallReport> Surgeon::install(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes,
                                       std::span<const ProcessAddr> semaphores) {
  if (sessions_.empty()) return fail("no memory has been mapped for the patches");
  Session& session = sessions_.back();
  TRY(process::RemoteMemory memory, process::RemoteMemory::open(pid_));
  const std::string gone = fmt::format("process {} has ended or executed another program", pid_);
  if (!session.journal.is_present(memory)) return fail(gone);
  TRY_STATUS(session.journal.add(memory, patches));
  TRY_STATUS(session.journal.add_semaphores(memory, semaphores));
  for (const Patch& patch : patches) {
    session.contents.patches.push_back(patch);
    session.contents.patches.back().places.clear();
  }
  InstallReport report;
  Status done = process::with_seized(pid_, {}, [&](process::SeizedProcess& process) -> Status {
    const Clock::time_point began = Clock::now();
    if (!session.journal.is_present(process.memory())) return fail(gone);
    TRY(report, inproc::install(process, patches, go_runtimes));
    for (ProcessAddr semaphore : semaphores) count_semaphore(process.memory(), semaphore, 1);
    auto& counted = session.contents.semaphores;
    counted.insert(counted.end(), semaphores.begin(), semaphores.end());
    TRY_STATUS(session.journal.confirm_semaphores(process.memory()));
    report.stopped_ns = uint64_t((Clock::now() - began).count());
    return {};
  });
  TRY_STATUS(done);
  TRY_STATUS(try_again(patches, go_runtimes, report));
  return report;
}

// Goroutines do not stay parked for long.
Status Surgeon::try_again(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes,
                          InstallReport& report) {
  auto pause = std::chrono::milliseconds(1);
  for (int round = 0; round < kMostRounds; ++round, pause *= 2) {
    std::vector<size_t> indices;
    for (const InstallReport::Refusal& refusal : report.refused)
      if (refusal.may_pass) indices.push_back(refusal.patch);
    if (indices.empty()) return {};
    std::this_thread::sleep_for(pause);
    std::ranges::sort(indices);
    std::vector<Patch> left;
    for (size_t i : indices) left.push_back(patches[i]);
    // The hole of one that may pass is in place, or may pass as well.
    for (Patch& patch : left)
      if (std::ranges::none_of(left, [&](const Patch& hole) { return hole.contains(patch.via); }))
        patch.via = {};
    InstallReport again;
    TRY_STATUS(process::with_seized(pid_, {}, [&](process::SeizedProcess& process) -> Status {
      const Clock::time_point began = Clock::now();
      if (!sessions_.back().journal.is_present(process.memory())) return {};
      TRY(again, inproc::install(process, left, go_runtimes));
      report.stopped_ns = std::max(report.stopped_ns, uint64_t((Clock::now() - began).count()));
      return {};
    }));
    std::erase_if(report.refused, [](const InstallReport::Refusal& refusal) { return refusal.may_pass; });
    for (InstallReport::Refusal& refusal : again.refused)
      report.refused.push_back({indices[refusal.patch], std::move(refusal.reason), refusal.may_pass});
    report.moved_threads += again.moved_threads;
    report.moved_frames += again.moved_frames;
  }
  return {};
}

Result<EndedThreads> Surgeon::take_from_ended(const EndedThreadsRequest& request) const {
  std::vector<AddressSpan> code = earlier_code_;
  for (const Session& session : sessions_)
    code.insert(code.end(), session.contents.code.begin(), session.contents.code.end());
  return inproc::take_from_ended(request, code);
}

Result<RemoveReport> Surgeon::remove(const RemoveOptions& options) {
  std::vector<JournalContents> journals;
  for (const Session& session : sessions_) journals.push_back(session.contents);
  TRY(RemoveReport report, inproc::remove(pid_, journals, options));
  if (report.is_clean) sessions_.clear();
  return report;
}

bool Surgeon::may_be_somewhere() const { return !std::ranges::all_of(witnesses_, &Witness::is_alone); }

}  // namespace uscope::engine::inproc
