// perf probe's exploring, on uscope's symbol layer: functions (-F), variables (-V), lines (-L) and
// definitions (-D), in perf's shapes. Each call opens one image, answers with the text to print, and keeps
// nothing.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace uscope::session {

struct PerfProbeRequest {
  std::string file;          // -x; a path, a bare name, or with a pid a path in its file system
  std::optional<pid_t> pid;  // --target-ns, or -x PID
  bool demangle = true;
  bool externs = false;          // -V: globals too
  bool range = false;            // -V: where in the function each variable has a place
  bool force = false;            // -D: the kernel's return trick even where it can kill the target
  std::string source_directory;  // -s
};

struct PerfProbeAnswer {
  std::string text;                // standard output
  std::vector<std::string> notes;  // standard error
};

Result<PerfProbeAnswer> probe_functions(const PerfProbeRequest& request, const std::string& filter);
Result<PerfProbeAnswer> probe_variables(const PerfProbeRequest& request, const std::string& point);
Result<PerfProbeAnswer> probe_lines(const PerfProbeRequest& request, const std::string& span);
Result<PerfProbeAnswer> probe_definition(const PerfProbeRequest& request, const std::string& definition);

}  // namespace uscope::session
