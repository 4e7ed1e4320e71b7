// A compiled program brought into one process: its memory mapped there, its stubs written near the code they
// serve, its probes patched in. The list of steps is attach(). Owns the guardian that does the work; the
// destructor takes everything out. One thread.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inproc/code/target_code.h"
#include "engine/inproc/target/build_patches.h"
#include "engine/inproc/target/guardian.h"
#include "engine/inproc/target/loadings.h"
#include "engine/inproc/target/text_facts.h"

namespace uscope::engine::inproc {

// The facts about a file, which must stay while the deployment uses them.
using FactsSource = std::function<Result<TextFacts*>(const std::string& file)>;

class Deployment {
 public:
  // Maps the memory that the program needs. `code` must outlive this.
  static Result<std::unique_ptr<Deployment>> start(pid_t pid, const TargetCode& code);
  Deployment(const Deployment&) = delete;
  Deployment& operator=(const Deployment&) = delete;
  ~Deployment();

  // The memory shared with the target.
  std::span<uint8_t> shared() const { return shared_; }
  ProcessAddr private_memory() const { return places_.private_memory; }

  // Sites of user probes; attachments of other kinds are left alone.
  Result<AttachReport> attach(const std::vector<Attachment>& attachments, const FactsSource& facts);
  // Idempotent. False: some thread is still in our code, which stays.
  Result<RemoveReport> detach();

  // What start() and the last attach() took.
  struct Timing {
    uint64_t planning_ns = 0;
    uint64_t building_ns = 0;
    uint64_t stopped_ns = 0;  // in all stops
    uint64_t longest_stop_ns = 0;
    uint32_t stops = 0;
    uint32_t moved_threads = 0, moved_frames = 0;

    void add_stop(uint64_t ns) {
      ++stops;
      stopped_ns += ns;
      longest_stop_ns = std::max(longest_stop_ns, ns);
    }
    // One sentence.
    std::string text() const;
  };
  const Timing& timing() const { return timing_; }

 private:
  Deployment(pid_t pid, const TargetCode& code, Guardian guardian)
      : pid_(pid), code_(code), guardian_(std::move(guardian)) {}
  Status map_memory();

  // One loading of one file with sites in it.
  struct Target {
    size_t file = 0;
    AddressSpan text;
    LoadedCode loaded;
    size_t cluster = 0;
    std::vector<ProcessAddr> semaphores;
  };
  // Text that one code area serves.
  struct Cluster {
    AddressSpan text;
    uint64_t stub_bytes = 0;
    Piece piece;
  };
  struct PlannedFile;

  Result<std::vector<PlannedFile>> plan_files(const std::vector<Attachment>& attachments,
                                              const FactsSource& facts, AttachReport& report) const;
  std::vector<Target> find_targets(std::vector<PlannedFile>& files, const process::Maps& maps,
                                   AttachReport& report) const;
  std::vector<Cluster> cluster(std::vector<Target>& targets, const std::vector<PlannedFile>& files) const;
  Result<Fd> map_clusters(std::vector<Cluster>& clusters, size_t patches);
  Status install(const std::vector<PlannedFile>& files, const std::vector<Target>& targets,
                 const std::vector<Cluster>& clusters, const Fd& memory, AttachReport& report);

  pid_t pid_;
  const TargetCode& code_;
  Guardian guardian_;
  MemoryPlaces places_;
  std::span<uint8_t> shared_;
  Timing timing_;
};

}  // namespace uscope::engine::inproc
