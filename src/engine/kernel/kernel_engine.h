// The engine on the kernel's side: uprobes and perf events that run eBPF, by raw system calls (Debian's
// libbpf is older than uprobe_multi). Everything hangs on file descriptors, so a killed uscope leaves nothing
// behind; only probes of the tracefs way do, which the next attach takes out.
//
// Conventions with the code that it runs:
//   - Timer and RunOnce codes run on the calling thread (BPF_PROG_TEST_RUN of a raw tracepoint program) and
//     must not read their context.
//   - A PerCpuArray map named "lost" with 8-byte values counts the records that found no room: lost() is its
//     sum.
//   - An Array map whose value's address is taken (MapReference::is_value) has one entry: the kernel's rule.
//   - Records of several RingBuffer maps are handed over map by map; in order within each.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/fd.h"
#include "engine/engine.h"
#include "engine/kernel/loader.h"
#include "engine/kernel/map.h"
#include "engine/kernel/ring_buffer.h"
#include "engine/kernel/uprobes.h"

namespace uscope::engine::kernel {

struct KernelOptions {
  // How user probes are attached. Auto: all in one link where the kernel can; else as perf events of their
  // own, or through tracefs where many sites can share an event. The others are taken or fail.
  enum class Prefer { Auto, Multi, PerfEvents, Tracefs };
  Prefer prefer = Prefer::Auto;
  bool without_multi = false;  // Auto as on a kernel before 6.6
};

class KernelEngine final : public Engine {
 public:
  explicit KernelEngine(KernelOptions options = {}) : options_(options) {}
  ~KernelEngine() override { detach(); }

  Status load(const codegen::Program& program) override;
  Result<AttachReport> attach(const std::vector<Attachment>& attachments) override;
  Status run(uint32_t code) override;
  Result<uint64_t> cost_of_run() override;
  Result<size_t> poll(std::chrono::milliseconds timeout,
                      const std::function<void(Bytes)>& on_record) override;
  Status wake_on(const Fd& source) override;
  void stop_timers() override { timers_stopped_ = true; }
  uint64_t lost() override;
  Status for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) override;
  Result<std::optional<MapEntry>> find_entry(uint32_t map, Bytes key) override;
  Status set_entry(uint32_t map, Bytes key, Bytes value) override;
  Status set_elements(uint32_t map, uint32_t first, Bytes values) override;
  Status remove_entry(uint32_t map, Bytes key) override;
  Status clear(uint32_t map) override;
  void detach() override;

 private:
  struct Timer {
    Fd clock;
    uint32_t code = 0;
  };

  Status make_maps();
  Status open_rings();
  Status load_codes();
  // The program for a code in a shape, loaded when first asked for. With a pid, it ends at once elsewhere.
  Result<int> program(uint32_t code, Shape shape, std::optional<pid_t> only_pid = {});
  Result<const Map*> map_at(uint32_t index) const;
  Status check(const Attachment& attachment) const;

  Result<AttachedUprobes> attach_probeable(const Attachment& attachment);
  Result<AttachedUprobes> attach_uprobes(const Attachment& attachment);
  // The ways of kernels without uprobe_multi.
  Result<AttachedUprobes> attach_without_multi(const Attachment& attachment);
  // For the kinds that are one event and not a list of sites.
  Status attach_event(const Attachment& attachment);
  Status start_timer(const Attachment& attachment);
  Result<size_t> run_due_timers(const std::function<void(Bytes)>& on_record);
  size_t consume(const std::function<void(Bytes)>& on_record);
  bool has_records() const;
  Status wait_for_records(std::chrono::milliseconds timeout);
  void judge_rate(size_t count);

  KernelOptions options_;
  codegen::Program program_;
  bool is_loaded_ = false;
  std::vector<Map> maps_;
  std::map<std::tuple<uint32_t, Shape, pid_t>, Fd> programs_;
  std::optional<MultiSupport> multi_support_;
  std::vector<RingBuffer> rings_;
  Fd epoll_;              // the rings, and
  Fd others_;             // all else that wakes the reader
  bool is_busy_ = false;  // records come so fast that nobody needs to be woken for them
  unsigned quick_polls_ = 0;
  std::chrono::steady_clock::time_point last_records_;
  std::vector<Timer> timers_;
  bool timers_stopped_ = false;
  std::vector<Fd> events_;
  std::vector<AttachedUprobes> uprobes_;
};

}  // namespace uscope::engine::kernel
