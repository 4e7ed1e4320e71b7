// The command line of a script: bpftrace's flags, read as its getopt reads them. argv -> ScriptOptions; what
// is wrong is said on standard error here. Opens nothing and runs nothing.
#pragma once

#include <sys/types.h>

#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/parameters.h"

namespace uscope::cli {

// Under which name uscope was started: a link called `bpftrace` answers as bpftrace does where the two differ
// (version, usage, an empty listing).
enum class Persona { Uscope, Bpftrace };

enum class Buffering { Line, Full, None };
enum class Mode { Run, Test, Bench, Format };

struct ScriptOptions {
  Persona persona = Persona::Uscope;
  std::optional<std::string> program;  // -e
  std::string file;                    // the script, or what -l looks for; "-" is standard input
  lang::CommandLine parameters;        // $1… and getopt()

  bool list = false, patchable = false, info = false, help = false, version = false;
  std::optional<pid_t> pid;
  std::vector<pid_t> dwarf_pids;
  std::string command;
  std::string engine = "auto";  // or kernel, inproc
  bool follows_forks = false;
  bool json = false;
  std::string output;
  std::optional<Buffering> buffering;
  bool quiet = false, verbose = false, unsafe = false, dry_run = false;
  bool warnings = true, helper_warnings = false;
  std::vector<std::string> include_folders, include_files, debug_folders;
  std::vector<std::string> debug_stages;
  Mode mode = Mode::Run;
  std::string probe_filter;
};

// The value of the error is the exit code to leave with.
std::expected<ScriptOptions, int> read_script_options(std::span<const char* const> args, Persona persona);

// What -h shows of the options.
std::string options_text();
// The whole of `bpftrace -h`.
std::string bpftrace_usage();

}  // namespace uscope::cli
