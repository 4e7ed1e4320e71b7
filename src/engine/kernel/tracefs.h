// The kernel's tracing files, as far as the engine needs them: ids of tracepoints, and uprobes defined by
// text where the kernel offers no better way. What is defined here outlives a process that is killed, so
// groups carry their maker's pid (uscope_PID_N), and the next one to come takes out what the dead have left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace uscope::engine::kernel {

// Where tracefs is mounted; an Error that says how to mount it otherwise.
Result<std::string> find_tracefs();
// The id of "category/name".
Result<uint64_t> tracepoint_id(const std::string& tracefs, const std::string& tracepoint);

// The pid in "uscope_PID_N"; nothing for other groups.
std::optional<pid_t> pid_of_group(std::string_view group);
// Takes out the uprobes of groups whose maker is no more. Those still in use by somebody stay.
void remove_stale_groups(const std::string& tracefs);

// A group of uprobes in uprobe_events. Its destructor takes them out: whoever uses them must have ended
// first.
class TracefsGroup {
 public:
  static Result<TracefsGroup> create(const std::string& tracefs);
  TracefsGroup(TracefsGroup&& other) noexcept;
  TracefsGroup& operator=(TracefsGroup&& other) noexcept;
  ~TracefsGroup();

  // Defines one more and returns its id.
  Result<uint64_t> add(const std::string& file, const Site& site, bool is_return);
  // One more place for the event that was added last (Linux 5.5); refused for a place that it has already.
  Status extend(const std::string& file, const Site& site, bool is_return);

 private:
  TracefsGroup(std::string tracefs, std::string name);
  void remove_all();
  Status define(const std::string& event, const std::string& file, const Site& site, bool is_return) const;

  std::string tracefs_;
  std::string name_;
  std::vector<std::string> events_;
};

}  // namespace uscope::engine::kernel
