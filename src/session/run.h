// `uscope -e 'PROGRAM'`: a script from its text to its last map. Reads as the list of folders: lang compiles,
// probe and symbols find the sites, codegen generates, an engine runs, event decodes, view writes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "lang/parameters.h"
#include "session/live_names.h"
#include "view/output.h"

namespace uscope::session {

struct RunRequest {
  std::string name = "stdin";  // what diagnostics call the script
  std::string text;
  lang::CommandLine command_line;
  std::optional<pid_t> pid;
  std::string command;  // -c: started with the script, and its end ends the script
  bool allow_unsafe = false;
  bool dry_run = false;  // compile, load nothing
  bool quiet = false;    // no "Attached …"
  bool with_warnings = true;
};

// Runs until the script exits, the command ends, or a signal comes. Yields the exit code.
// `report` gets the compiler's messages; `output` all else.
Result<int> run_script(const RunRequest& request, view::Output& output, LiveNames& names,
                       const view::Writer& report);

// The script as --fmt prints it; the compiler's messages if it does not parse.
Result<std::string> format_script(const std::string& name, const std::string& text);

}  // namespace uscope::session
