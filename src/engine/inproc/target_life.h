// What happens to a target while it is traced: libraries come and go, it forks, it executes another program.
// look() is called every few milliseconds and whenever the target says something; it is cheap when nothing
// has happened. Borrows the deployment. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inproc/runtime/notice_board.h"
#include "engine/inproc/target/deployment.h"
#include "engine/inproc/target/hooks.h"
#include "engine/inproc/thread_upkeep.h"
#include "process/info.h"

namespace uscope::engine::inproc {

// For a process whose parent uscope is: how it is taken through an exec without missing an instruction.
struct ExecFollower {
  // A thread of it is about to execute another program, once `let_go` was called (again and again, until it
  // does). True: it has, and is held at the new program's entry.
  std::function<Result<bool>(pid_t thread, const std::function<void()>& let_go)> hold;
  std::function<void()> release;
  explicit operator bool() const { return bool(hold); }
};

// Why a process is no longer one for probes, if something came into it that they could harm. Asked when it
// may have loaded a library.
using Misfit = std::function<std::optional<std::string>()>;

struct LifeOptions {
  bool follows_forks = false;
  Misfit misfit;
  ExecFollower exec;
};

class TargetLife {
 public:
  TargetLife(pid_t pid, Deployment& deployment, FactsSource facts, LifeOptions options,
             const HookCodes& hook_codes);
  // The script shows ids of threads: those of another pid namespace cannot be told as uscope would see them.
  void set_shows_thread_ids() { shows_thread_ids_ = true; }

  Result<AttachReport> attach(const std::vector<Attachment>& attachments);
  void look();
  // Before the target goes on.
  void when_libraries_change(std::function<void()> then) { when_libraries_change_ = std::move(then); }
  // Nothing is brought into the target any more: uscope is leaving.
  void end();

  const Fd& source() const { return board_.source(); }
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }
  bool has_followed_children();
  // The probes were taken out of the process before its end: it is under seccomp, or a misfit.
  bool has_left() const { return has_left_; }

 private:
  using Clock = std::chrono::steady_clock;

  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(deployment_.shared().data()); }
  void drop_failures_of_hooks(AttachReport& report) const;
  Result<AttachReport> bring_to_current_image();
  void take_notice(const NoticeBoard::Notice& notice);
  void catch_up();
  void hear_of_children();
  void look_for_children();
  void leave_sandboxed(const NoticeBoard::Notice& notice);
  void look_at_status();
  void look_for_misfit();
  void leave();
  void add_late_hooks();
  void after_exec(bool is_held);
  bool is_alive() const;

  pid_t pid_;
  Deployment& deployment_;
  FactsSource facts_;
  LifeOptions options_;
  HookCodes hook_codes_;
  NoticeBoard board_;
  ThreadUpkeep threads_;
  std::vector<Attachment> attachments_;
  std::function<void()> when_libraries_change_;
  bool is_attached_ = false, is_over_ = false, shows_thread_ids_ = false;
  bool said_too_many_threads_ = false;
  bool has_left_ = false, keeps_memory_ = false;
  std::optional<Clock::time_point> late_hooks_due_;
  Clock::time_point next_look_at_status_;
  std::optional<process::Seccomp> seccomp_;  // of the first thread, when the probes came
  std::optional<uint64_t> library_kb_;       // when it was last looked what that is
  bool needs_looking_ = false;               // nobody tells of everything: look at the maps from time to time
  Clock::time_point next_look_;
  uint32_t children_heard_ = 0, children_looked_for_ = 0;
  std::optional<Clock::time_point> children_due_, unwritten_since_;
  Clock::time_point last_looked_for_children_;
  std::map<pid_t, uint64_t> followed_;  // start times
  std::vector<std::string> news_;
  // After an exec: when to say that nothing of what is probed is in the new program.
  std::optional<Clock::time_point> verdict_due_;
  std::string executed_;
};

}  // namespace uscope::engine::inproc
