// Attaching user probes, in three ways: all sites in one uprobe_multi link (Linux 6.6), one perf event a
// site, and events defined in tracefs. Each way takes an Attachment and a program loaded for it, attaches
// what it can and says what it could not. Choosing the way is the engine's.
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/kernel/tracefs.h"

namespace uscope::engine::kernel {

struct SiteFailure {
  size_t site = 0;
  int error_number = 0;
  Error error;
};

// What keeps the probes in place. Links end before the tracefs events that they use: the order of the members
// matters.
struct AttachedUprobes {
  std::vector<TracefsGroup> groups;
  std::vector<Fd> links;
  std::vector<SiteFailure> failures;

  AttachedUprobes() = default;
  AttachedUprobes(AttachedUprobes&&) = default;
  AttachedUprobes& operator=(AttachedUprobes&& other) noexcept;

  // Was everything refused for want of rights or of the feature, so that another way may do better?
  bool is_refused_whole(size_t sites) const;
};

struct MultiSupport {
  bool is_there = false;
  // Before 6.10 (and its backports) the filter took only the thread whose id is the pid.
  bool filters_by_process = false;
};
// `program` is loaded as UprobeMulti. Asks for links that cannot be made, and looks at how they are refused.
MultiSupport find_multi_support(int program);

// The sites, in order, that the kernel would refuse once it sees their instruction.
std::vector<SiteFailure> unprobeable_sites(const Attachment& attachment);

AttachedUprobes attach_multi(int program, const Attachment& attachment);
AttachedUprobes attach_perf_events(int program, const Attachment& attachment);
// Sites with the same cookie share one event: the kernel ends an event at a time, and takes long for each.
AttachedUprobes attach_tracefs(int program, const Attachment& attachment);

}  // namespace uscope::engine::kernel
