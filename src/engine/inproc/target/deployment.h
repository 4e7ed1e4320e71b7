// A compiled program brought into one process: its memory mapped there, its stubs written near the code they
// serve, its probes patched in. The list of steps is attach(). Owns the guardian that does the work; the
// destructor takes everything out. One thread.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
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
  // Maps the memory that the program needs, and what attach() will need for these attachments, in one stop.
  // None: they come with plan(). `code` must outlive this.
  static Result<std::unique_ptr<Deployment>> start(pid_t pid, const TargetCode& code,
                                                   const std::vector<Attachment>& attachments = {},
                                                   const FactsSource& facts = {});
  Deployment(const Deployment&) = delete;
  Deployment& operator=(const Deployment&) = delete;
  ~Deployment();

  // The memory shared with the target.
  std::span<uint8_t> shared() const { return shared_; }
  const TargetCode& code() const { return code_; }
  ProcessAddr private_memory() const { return places_.private_memory; }
  const MemoryPlaces& places() const { return places_; }

  // For the next attach(). Sites of user probes; attachments of other kinds are left alone.
  Status plan(const std::vector<Attachment>& attachments, const FactsSource& facts);
  bool is_planned() const { return planned_.has_value(); }
  // What attach() would refuse.
  Result<std::vector<AttachFailure>> foresee() const;
  // Sites of files that the process has not loaded wait for them, see catch_up(). Once for each image: see
  // move_on().
  Result<AttachReport> attach();
  // More of them, behind `first` others, in places that no other is near. What cannot be placed is left out.
  // The Error: it cannot be done now.
  Status add(const std::vector<Attachment>& attachments, size_t first, const FactsSource& facts);
  // Brings probes into files that have been loaded since, and forgets those of files that have gone.
  struct Changes {
    size_t loaded = 0, unloaded = 0;
    std::vector<AttachFailure> failures;
  };
  Result<Changes> catch_up();
  // Whether something of the first so many attachments is in the process now.
  bool has_targets_of(size_t attachments) const;
  // False: the process has ended or executed another program, and all that was brought there is gone.
  bool is_in_place() const;
  // After the process has executed another program: memory for that one, with the maps as they are; where
  // children that it has forked are traced, the same memory. plan() and attach() come next.
  Status move_on();
  // What is mapped stays, and nothing is done to the process any more.
  void abandon() { guardian_->start_over(); }
  // Idempotent. False: some thread is still in our code, which stays.
  Result<RemoveReport> detach();

  // Out of the process or one that it has forked, in which a thread waits for it: see RemoveOptions::waits.
  Result<RemoveReport> take_out(pid_t pid, uint64_t waits) { return guardian_->take_out(pid, waits); }
  void tell_of_child(pid_t child, Offspring::Probes probes) { guardian_->tell_of_child(child, probes); }
  // Of the process or of one that it has forked: see target/ended_threads.h.
  Result<EndedThreads> take_from_ended(pid_t pid, const std::vector<uint32_t>& numbers);
  // Whether a process has the memory mapped. Nothing: one may not look.
  std::optional<bool> is_shared_with(pid_t pid) const;
  // Other processes that share the memory: the target's descendants.
  std::vector<pid_t> descendants() const;

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
      : pid_(pid), code_(code), guardian_(std::make_unique<Guardian>(std::move(guardian))) {}
  Result<Fd> map_memory(const Fd& shared = Fd());
  Status share(Fd memory);
  Status bring_in(AttachReport& report, bool can_wait = false);
  std::vector<Patch> load_gate_patches() const;
  Status open_load_gate(ProcessAddr gate, process::RemoteMemory& remote);

  // One loading of one file with sites in it.
  struct Target {
    size_t file = 0;
    AddressSpan text;
    LoadedCode loaded;
    size_t cluster = 0;
    std::vector<ProcessAddr> semaphores;
    // One of its patches: as long as it is there, so is this very loading.
    Patch sample{};  // size 0: there is none
  };
  // Text that one code area serves.
  struct Cluster {
    AddressSpan text;
    uint64_t stub_bytes = 0;
    Piece piece;
  };
  // All sites of one file, whichever attachment they are of.
  struct PlannedFile {
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
    uint64_t stub_bytes = 0;  // that the plan takes at most

    void refuse(AttachReport& report, size_t site, std::string why) const {
      report.failures.push_back({origins[site].attachment, origins[site].site, Error(std::move(why))});
    }
    void make_plan(AttachReport& report);
  };

  Result<std::vector<PlannedFile>> plan_files(const std::vector<Attachment>& attachments,
                                              const FactsSource& facts, AttachReport& report) const;
  std::vector<Target> find_targets(const process::Maps& maps) const;
  bool is_loaded(size_t file) const;
  std::vector<Cluster> cluster(std::vector<Target>& targets) const;
  AreaRequest request_for(const std::vector<Cluster>& clusters, size_t records) const;
  size_t records_of(const std::vector<Target>& targets) const;
  Result<Fd> map_clusters(std::vector<Cluster>& clusters, size_t records, bool can_wait);
  bool take_reserved(std::vector<Cluster>& clusters);
  Status install(std::vector<Target>& targets, const std::vector<Cluster>& clusters, const Fd& memory,
                 AttachReport& report);
  Result<size_t> forget_unloaded(const process::Maps& maps);

  pid_t pid_;
  const TargetCode& code_;
  std::unique_ptr<Guardian> guardian_;
  MemoryPlaces places_;
  std::vector<MemoryPlaces> earlier_places_;  // in programs that it ran before: children of these have them
  Fd memory_;                                 // behind what is shared
  std::span<uint8_t> shared_;
  std::optional<process::RemoteMemory> remote_;  // of the image that all this is in
  bool is_on_ = false;                           // the private memory's header is there
  std::vector<PlannedFile> files_;
  size_t planned_sites_ = 0;                           // asked for, of all files
  std::optional<std::vector<AttachFailure>> planned_;  // what the plan of `files_` refuses, until attach()
  std::vector<Cluster> reserved_;                      // mapped with the data, until attach()
  std::vector<Target> targets_;                        // what is in place
  Timing timing_;
};

}  // namespace uscope::engine::inproc
