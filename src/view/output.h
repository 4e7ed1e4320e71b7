// What a session tells its user, as events; TextOutput and JsonOutput write them in bpftrace 0.27's shapes.
// Owned by the session, called on its one output thread. Decides neither when maps are printed nor whether
// -q hides something: it writes what it is told, each event in one piece, so that lines never interleave.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "event/symbol_names.h"
#include "event/value.h"

namespace uscope::view {

// Takes a whole event's bytes. One for results (standard output or -o FILE), one for diagnostics.
using Writer = std::function<void(std::string_view)>;

enum class Severity {
  Warning,       // warnf()
  Error,         // errorf()
  RuntimeError,  // what went wrong in the script as it ran; a warning to who reads it
};

// What a helper answered, and where in the script.
struct HelperFailure {
  std::string helper;   // "probe_read_user"
  std::string place;    // file:line:column-end
  std::string context;  // the script's line and a marker below it
  int64_t result = 0;   // minus an errno
};

struct Benchmark {
  std::string name;
  uint64_t average_ns = 0, iterations = 0;
};

class Output {
 public:
  virtual ~Output() = default;

  virtual void attached_probes(uint64_t count) = 0;
  virtual void printf(std::string_view text) = 0;
  virtual void time(std::string_view text) = 0;
  virtual void cat(std::string_view text) = 0;
  virtual void join(std::string_view text) = 0;
  virtual void system(std::string_view text) = 0;
  virtual void value(const event::Value& value) = 0;
  // `top`: only the so many largest, 0 for all. `divisor`: of every number shown; 0 and 1 leave them.
  virtual void map(const event::MapContents& map, uint64_t top, uint64_t divisor) = 0;
  void map(const event::MapContents& contents) { map(contents, 0, 1); }
  // errorf and warnf. `context` stands below: the script's line and a marker, or nothing.
  virtual void script_message(Severity severity, std::string_view place, std::string_view text,
                              std::string_view context) = 0;
  void script_message(Severity severity, std::string_view place, std::string_view text) {
    script_message(severity, place, text, "");
  }
  virtual void helper_error(const HelperFailure& failure) = 0;
  virtual void lost_events(uint64_t count) = 0;
  // --mode bench.
  virtual void benchmark_results(const std::vector<Benchmark>& results) = 0;
  // The script has ended; maps that follow are its last.
  virtual void end() = 0;
};

}  // namespace uscope::view
