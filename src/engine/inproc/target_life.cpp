#include "engine/inproc/target_life.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/inproc/runtime/shared_plan.h"
#include "process/info.h"
#include "process/proc_dir.h"

namespace uscope::engine::inproc {
namespace {

constexpr std::chrono::seconds kLookAtMapsEvery{1};
constexpr std::chrono::milliseconds kLookAtStatusEvery{100};
// A script that ends at once does without.
constexpr std::chrono::milliseconds kLateHooksAfter{20}, kLateHooksAgain{1000};
// Many children end or execute something else sooner than they are looked for; and looking takes a
// millisecond for some hundred processes.
constexpr std::chrono::milliseconds kLookForChildrenAfter{10}, kLookForChildrenEvery{200};
constexpr std::chrono::milliseconds kChildWrites{200};
// What a program takes at most to load its libraries, in nearly all cases.
constexpr std::chrono::milliseconds kVerdictAfter{500};

}  // namespace

TargetLife::TargetLife(pid_t pid, Deployment& deployment, FactsSource facts, LifeOptions options,
                       const HookCodes& hook_codes)
    : pid_(pid),
      deployment_(deployment),
      facts_(std::move(facts)),
      options_(std::move(options)),
      hook_codes_(hook_codes),
      board_(deployment.shared()),
      threads_(pid, deployment) {
  header().pid = uint32_t(pid_);
  header().inner_pid = deployment.places().pid;
  header().follows_forks = options_.follows_forks;
}

void TargetLife::drop_failures_of_hooks(AttachReport& report) const {
  std::erase_if(report.failures,
                [&](const AttachFailure& failure) { return failure.attachment >= attachments_.size(); });
  report.attached_sites = 0;
  for (const Attachment& attachment : attachments_)
    if (attachment.kind == Attachment::Kind::UserProbe) report.attached_sites += attachment.sites.size();
  report.attached_sites -= report.failures.size();
}

// It may execute another program meanwhile.
Result<AttachReport> TargetLife::bring_to_current_image() {
  constexpr int kTries = 3;
  for (int tries = 1;; ++tries) {
    if (!deployment_.is_planned())
      TRY_STATUS(deployment_.plan(with_hooks(pid_, attachments_, hook_codes_, facts_), facts_));
    auto report = deployment_.attach();
    if (report || tries == kTries || deployment_.is_in_place() || !is_alive()) return report;
    TRY_STATUS(deployment_.move_on());
  }
}

void TargetLife::add_late_hooks() {
  late_hooks_due_.reset();
  const std::vector<Attachment> hooks = late_hooks(pid_, attachments_, hook_codes_, facts_);
  if (hooks.empty() || deployment_.add(hooks, attachments_.size(), facts_)) return;
  late_hooks_due_ = Clock::now() + kLateHooksAgain;
}

Result<AttachReport> TargetLife::attach(const std::vector<Attachment>& attachments) {
  attachments_ = attachments;
  // Said before the first hook can be hit.
  header().answers_notices = 1;
  TRY(AttachReport report, bring_to_current_image());
  drop_failures_of_hooks(report);
  needs_looking_ = !report.awaited_files.empty();
  next_look_ = Clock::now() + kLookAtMapsEvery;
  is_attached_ = true;
  late_hooks_due_ = Clock::now() + kLateHooksAfter;
  if (shows_thread_ids_ && header().inner_pid != uint32_t(pid_))
    news_.push_back(
        fmt::format("process {} is in another pid namespace: tid is a thread's number in there", pid_));
  return report;
}

void TargetLife::end() {
  is_over_ = true;
  header().answers_notices = 0;
  board_.answer_all();
}

// A process that is ending has no memory any more, some time before it is a zombie.
bool TargetLife::is_alive() const {
  auto info = process::read_process(pid_);
  auto pages = read_text_file(process::living_proc_dir(pid_) + "/statm");
  return info && !info->is_zombie && pages && !pages->starts_with("0 ");
}

void TargetLife::look() {
  if (!is_attached_) return;
  hear_of_children();
  if (is_over_) return;
  if (!deployment_.is_in_place()) return is_alive() ? after_exec(false) : void(is_over_ = true);
  if (auto notice = board_.take()) take_notice(*notice);
  if (is_over_) return;
  look_at_status();
  if (is_over_) return;
  if (late_hooks_due_ && Clock::now() >= *late_hooks_due_) add_late_hooks();
  threads_.look();
  if (!std::exchange(said_too_many_threads_, header().hits_without_slot != 0) && said_too_many_threads_)
    news_.push_back(fmt::format(
        "process {} has more than {} threads at once: those beyond are not traced, and what they hit is "
        "counted as lost",
        pid_, deployment_.code().shared_plan().thread_limit - 1));
  const Clock::time_point now = Clock::now();
  if (needs_looking_ && now >= next_look_) catch_up();
  if (verdict_due_ && (deployment_.has_targets_of(attachments_.size()) || now >= *verdict_due_)) {
    if (!deployment_.has_targets_of(attachments_.size()))
      news_.push_back(fmt::format("process {} executed {}; its probes ended: nothing that is probed is in it",
                                  pid_, executed_));
    verdict_due_.reset();
  }
}

void TargetLife::catch_up() {
  if (when_libraries_change_) when_libraries_change_();
  next_look_ = Clock::now() + kLookAtMapsEvery;
  auto changes = deployment_.catch_up();
  // A process that ends or executes meanwhile is seen to by the next look.
  if (!changes) return;
  AttachReport report;
  report.failures = std::move(changes->failures);
  drop_failures_of_hooks(report);
  if (report.failures.empty()) return;
  const AttachFailure& first = report.failures.front();
  news_.push_back(
      fmt::format("{} probes in files that process {} has loaded cannot be placed; the first, in {}: {}",
                  report.failures.size(), pid_, attachments_[first.attachment].file, first.error.message()));
}

void TargetLife::take_notice(const NoticeBoard::Notice& notice) {
  if (notice.of_libraries) look_for_misfit();
  if (notice.of_libraries && !has_left_) catch_up();
  const bool is_its_own = ::access(fmt::format("/proc/{}/task/{}", pid_, notice.thread).c_str(), F_OK) == 0;
  if (notice.of_exec && options_.exec && is_its_own && !has_left_) {
    auto held = options_.exec.hold(notice.thread, [this] { board_.answer_all(); });
    if (held && *held) after_exec(true);
  }
  if (notice.sandboxed != 0) leave_sandboxed(notice);
  board_.answer(notice);
  // The thread that waited has gone on by now, or is about to.
  if (has_left_) leave();
}

void TargetLife::leave() {
  header().answers_notices = 0;
  board_.answer_all();
  if (!keeps_memory_) (void)deployment_.detach();
}

void TargetLife::look_for_misfit() {
  const auto why = options_.misfit ? options_.misfit() : std::nullopt;
  if (!why) return;
  news_.push_back(
      fmt::format("{}: the probes are taken out of process {}; --engine kernel is safe", *why, pid_));
  has_left_ = is_over_ = true;
}

// A process that goes under seccomp could be killed for any system call of a probe: none must be in it then.
// It has switched its probes off; when this is done, no thread is in one any more.
void TargetLife::leave_sandboxed(const NoticeBoard::Notice& notice) {
  const bool is_the_target = uint32_t(notice.sandboxed) == header().inner_pid;
  const pid_t pid = is_the_target ? pid_ : notice.sandboxed;
  // A target may say anything.
  if (!is_the_target && deployment_.is_shared_with(pid) != true) return;
  (void)deployment_.take_out(pid, notice.thread_pointer);
  news_.push_back(fmt::format("process {} puts itself under seccomp: its probes were taken out before", pid));
  if (!is_the_target) return;
  has_left_ = is_over_ = true;
  // Threads that sleep in calls which their new filter forbids must not be stopped again.
  keeps_memory_ = notice.of_all_threads && process::thread_ids(pid_).size() > 1;
  if (!keeps_memory_) return;
  deployment_.abandon();
  news_.push_back(fmt::format(
      "uscope's memory stays in process {}: all its threads have got a filter, and to stop them could be "
      "their death; `uscope detach {}` takes it out",
      pid_, pid_));
}

// It may also do so by a system call of its own, of which nobody tells. Nor does everybody of libraries.
void TargetLife::look_at_status() {
  if (Clock::now() < next_look_at_status_) return;
  next_look_at_status_ = Clock::now() + kLookAtStatusEvery;
  auto text = read_text_file(process::living_proc_dir(pid_) + "/status");
  auto status = text ? process::parse_status(*text) : fail(std::move(text).error());
  if (!status) return;
  if (!seccomp_) seccomp_ = status->seccomp;
  if (*seccomp_ != status->seccomp) {
    news_.push_back(fmt::format("process {} has put itself under seccomp: its probes are taken out", pid_));
    has_left_ = is_over_ = true;
  } else if (std::exchange(library_kb_, status->library_kb) != status->library_kb) {
    look_for_misfit();
  }
  if (has_left_) leave();
}

// The process runs another program; everything that was in it is gone.
void TargetLife::after_exec(bool is_held) {
  late_hooks_due_ = Clock::now() + kLateHooksAfter;
  library_kb_.reset();
  auto info = process::read_process(pid_);
  executed_ = info && info->exe ? *info->exe : "another program";
  const bool was_live = deployment_.has_targets_of(attachments_.size());
  auto ended = [&](const std::string& why) {
    news_.push_back(fmt::format("process {} executed {}; its probes ended: {}", pid_, executed_, why));
    is_over_ = true;
  };
  if (auto moved = deployment_.move_on(); !moved) {
    ended(moved.error().message());
  } else if (auto report = bring_to_current_image(); !report) {
    ended(report.error().message());
  } else {
    needs_looking_ = !report->awaited_files.empty();
    // What was loaded while this was being done.
    catch_up();
    const bool is_live = deployment_.has_targets_of(attachments_.size());
    if (is_live && !is_held)
      news_.push_back(fmt::format("process {} executed {}; its probes went there some milliseconds later",
                                  pid_, executed_));
    if (!is_live && was_live) verdict_due_ = Clock::now() + kVerdictAfter;
  }
  if (is_held) options_.exec.release();
}

// Children that are not followed do not say who they are.
void TargetLife::look_for_children() {
  const uint32_t said = __atomic_load_n(&header().unnamed_children, __ATOMIC_ACQUIRE);
  const Clock::time_point now = Clock::now();
  if (said == children_looked_for_) return;
  if (!children_due_)
    children_due_ = std::max(now + kLookForChildrenAfter, last_looked_for_children_ + kLookForChildrenEvery);
  if (now < *children_due_) return;
  children_due_.reset();
  last_looked_for_children_ = now;
  children_looked_for_ = said;
  for (pid_t child : deployment_.descendants()) deployment_.tell_of_child(child, Offspring::Probes::Off);
}

void TargetLife::hear_of_children() {
  SharedHeader& shared = header();
  if (!options_.follows_forks) return look_for_children();
  const uint32_t said = __atomic_load_n(&shared.children_said, __ATOMIC_ACQUIRE);
  if (said - children_heard_ > kMostNewChildren) children_heard_ = said - kMostNewChildren;
  for (; children_heard_ != said; ++children_heard_) {
    uint32_t* place = &shared.children[children_heard_ % kMostNewChildren];
    const uint32_t child = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (child == 0) {  // it is just being written, or its child was killed meanwhile
      const Clock::time_point now = Clock::now();
      if (!unwritten_since_) unwritten_since_ = now;
      if (now - *unwritten_since_ < kChildWrites) return;
    }
    unwritten_since_.reset();
    if (child == 0) continue;
    __atomic_store_n(place, 0, __ATOMIC_RELAXED);
    // Ids of another pid namespace mean nothing here.
    if (shared.inner_pid != uint32_t(pid_)) continue;
    deployment_.tell_of_child(pid_t(child), Offspring::Probes::On);
    if (auto info = process::read_process(pid_t(child))) followed_.emplace(pid_t(child), info->start_time);
  }
}

bool TargetLife::has_followed_children() {
  if (!options_.follows_forks) return false;
  hear_of_children();
  auto is_running = [](pid_t pid, uint64_t start_time) {
    auto info = process::read_process(pid);
    return info && !info->is_zombie && info->start_time == start_time;
  };
  std::erase_if(followed_, [&](const auto& child) { return !is_running(child.first, child.second); });
  if (!followed_.empty()) return true;
  // Those that have hit no probe yet.
  for (pid_t pid : deployment_.descendants())
    if (auto info = process::read_process(pid)) {
      followed_.emplace(pid, info->start_time);
      deployment_.tell_of_child(pid, Offspring::Probes::On);
    }
  return !followed_.empty();
}

}  // namespace uscope::engine::inproc
