// The engine inside the target: probes are jumps to compiled code in the traced process itself, which needs
// only the right to ptrace it. One process, and those that it forks where that is asked for. Joins the parts:
// code/ compiles, target/ brings it there and takes it out, runtime/ reads what it counts and reports,
// target_life keeps up with what the process does.
//
// Takes user probes and intervals. What only the kernel can see (profile, software events, tracepoints, the
// kernel's own return probes) is refused, site by site, with the reason.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "engine/engine.h"
#include "engine/inproc/code/target_code.h"
#include "engine/inproc/own_code.h"
#include "engine/inproc/runtime/clock_source.h"
#include "engine/inproc/runtime/map_store.h"
#include "engine/inproc/runtime/ring_reader.h"
#include "engine/inproc/target/deployment.h"
#include "engine/inproc/target_life.h"

namespace uscope::engine::inproc {

class InprocEngine final : public Engine {
 public:
  InprocEngine(pid_t pid, FactsSource facts, LifeOptions life)
      : pid_(pid), facts_(std::move(facts)), life_options_(std::move(life)) {}
  ~InprocEngine() override { detach(); }

  void expect(const std::vector<Attachment>& attachments) override { expected_ = attachments; }
  Status load(const codegen::Program& program) override;
  Result<std::vector<AttachFailure>> foresee() override;
  Result<AttachReport> attach(const std::vector<Attachment>& attachments) override;
  Status run(uint32_t code) override;
  Result<size_t> poll(std::chrono::milliseconds timeout,
                      const std::function<void(Bytes)>& on_record) override;
  Status wake_on(const Fd& source) override;
  void when_libraries_change(std::function<void()> then) override {
    if (life_) life_->when_libraries_change(std::move(then));
  }
  Result<uint64_t> cost_of_run() override;
  std::vector<std::string> take_news() override;
  bool has_followed_children() override { return life_ && life_->has_followed_children(); }
  uint64_t lost() override;
  Status for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) override;
  Result<std::optional<MapEntry>> find_entry(uint32_t map, Bytes key) override;
  Status set_entry(uint32_t map, Bytes key, Bytes value) override;
  Status set_elements(uint32_t map, uint32_t first, Bytes values) override;
  Status remove_entry(uint32_t map, Bytes key) override;
  Status clear(uint32_t map) override;
  void detach() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    uint32_t code = 0;
    std::chrono::nanoseconds period{0};
    Clock::time_point next;
  };

  Result<MapStore*> maps();
  Status attach_event(const Attachment& attachment);
  Status run_due_timers();
  // What may change while the process runs: the clock's rate, its parent, its cgroup.
  Status publish();
  void leave();
  size_t read_records(const std::function<void(Bytes)>& on_record);

  pid_t pid_;
  FactsSource facts_;
  LifeOptions life_options_;
  codegen::Program program_;
  std::vector<Attachment> expected_;
  // In the order of making; taken apart the other way round.
  std::unique_ptr<TargetCode> code_;
  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<TargetLife> life_;
  std::unique_ptr<OwnCode> own_;
  ClockSource clock_;
  Clock::time_point published_;
  std::optional<MapStore> maps_;
  std::vector<RingReader> rings_;
  std::vector<Timer> timers_;
  std::vector<pollfd> wakers_;
  std::vector<std::string> last_news_;
  bool is_attached_ = false, has_left_ = false;
};

}  // namespace uscope::engine::inproc
