// `uscope -e 'PROGRAM'`: a script from its text to its last map. Reads as the list of folders: lang compiles,
// probe and symbols find the sites, codegen generates, an engine runs, event decodes, view writes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lang/parameters.h"
#include "session/engines.h"
#include "session/live_names.h"
#include "view/output.h"

namespace uscope::session {

// Which of a script's probes are run.
enum class ScriptMode { Run, Test, Bench };

struct RunRequest {
  std::string name = "stdin";  // what diagnostics call the script
  std::string text;
  lang::CommandLine command_line;
  std::optional<pid_t> pid;
  std::string command;  // -c: started with the script, and its end ends the script
  bool command_has_quotes = true;
  EngineChoice engine = EngineChoice::Auto;
  bool follows_forks = false;     // --follow-fork
  std::vector<pid_t> dwarf_pids;  // --dwarf-pid: processes whose stacks are to be unwound
  bool is_bpftrace = false;       // be as strict as bpftrace
  bool allow_unsafe = false;
  bool dry_run = false;  // compile, load nothing
  bool quiet = false;    // no "Attached …"
  bool verbose = false;
  bool with_warnings = true;
  bool with_helper_warnings = false;                        // -k
  std::vector<std::string> include_folders, include_files;  // -I, --include
  std::vector<std::string> debug_folders;                   // --debuginfo
  std::vector<std::string> debug_stages;                    // -d
  ScriptMode mode = ScriptMode::Run;
  std::string probe_filter;  // a regular expression over names of test and bench probes; empty: all
  std::function<void()> on_attached = [] {};
  std::function<void()> on_drained = [] {};   // there is nothing more to write for now
  std::function<void()> on_finished = [] {};  // nor later
  std::function<void()> on_interrupted = [] {};
  std::function<bool()> is_unheard = [] { return false; };  // nobody reads any longer: the script is to end
};

// Runs until the script exits, the command ends, or a signal comes. Yields the exit code.
// `report` gets the compiler's messages; `output` all else.
Result<int> run_script(const RunRequest& request, view::Output& output, LiveNames& names,
                       const view::Writer& report);

// The script as --fmt prints it; the compiler's messages if it does not parse.
Result<std::string> format_script(const std::string& name, const std::string& text);

}  // namespace uscope::session
