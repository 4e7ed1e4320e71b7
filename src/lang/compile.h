// The front end as a whole: script text in, a typed program out, one pass after the other. What it cannot
// know itself it asks for: types (TypeSource), which probes there are (ProbeMatcher), files to import
// (ScriptLoader).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lang/c_preprocessor.h"
#include "lang/config.h"
#include "lang/diagnostics.h"
#include "lang/parameters.h"
#include "lang/source.h"
#include "lang/type_source.h"
#include "lang/typed_program.h"

namespace uscope::lang {

// What an attach point stands for. With nothing found, `missing` is the sentence that says so, unless it is
// empty: a wildcard may match nothing beside others that match.
struct ProbeMatches {
  std::vector<AttachSpec> found;
  std::string missing;
  std::string hint;
  // Where set, `missing` is said as bpftrace's attaching says it, without a place in the script: the probe.
  std::string unattached;
};
// Turns an attach point into those it stands for: wildcards, library names, several builds of a function.
// What is wrong beyond not being there it says through the diagnostics, and gives nothing then.
using ProbeMatcher = std::function<ProbeMatches(const AttachSpec& probe, Diagnostics& diagnostics)>;
// The text of an imported script, nothing if there is none.
using ScriptLoader = std::function<std::optional<std::string>(const std::string& path)>;

struct CompileInputs {
  CommandLine command_line;
  Environment environment = [](const std::string&) { return std::nullopt; };
  ProbeMatcher matcher;                       // empty: attach points stand for themselves
  ScriptLoader loader;                        // empty: nothing can be imported
  HeaderFinder find_header;                   // empty: nothing that is included is read
  std::vector<std::string> included_headers;  // --include
  bool knows_kernel_types = false;
  bool allow_unsafe = false;
  bool as_bpftrace = false;
};

// Nothing if there were errors. `sources` gets what is imported and outlives the diagnostics.
std::optional<TypedProgram> compile(SourceSet& sources, uint32_t source, const CompileInputs& inputs,
                                    const TypeSource& types, Diagnostics& diagnostics);

}  // namespace uscope::lang
