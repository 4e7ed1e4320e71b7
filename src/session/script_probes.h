// From a script's attach points to the sites an engine attaches to: expands wildcards for the compiler
// (lang's ProbeMatcher), and turns what was compiled into the engine's attachments. Entry probes take the
// cheapest equivalent site; return probes sit on the function's own exits. Opens images through ScriptTypes,
// which keeps them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "lang/compile.h"
#include "lang/diagnostics.h"
#include "lang/typed_program.h"
#include "probe/image_files.h"
#include "session/return_probes.h"
#include "session/script_types.h"

namespace uscope::session {

// Which code runs at which attach point of the compiled program.
struct CodeAtPoint {
  const lang::AttachSpec* point = nullptr;
  uint32_t code = 0;
  uint64_t cookie = 0;
  std::vector<uint32_t> site_codes = {};  // see codegen::CodeUse
};

// Where a script looks, and how strictly.
struct ProbeScope {
  std::optional<pid_t> pid;   // only this process
  std::string command_file;   // -c: the program that `pid` will become
  bool allow_unsafe = false;  // --unsafe
  bool is_bpftrace = false;   // refuse what bpftrace refuses
};

class ScriptProbes {
 public:
  ScriptProbes(ScriptTypes& types, ProbeScope scope) : types_(types), scope_(std::move(scope)) {}

  // The attach points that one stands for: files and functions by name, with their addresses.
  lang::ProbeMatches match(const lang::AttachSpec& point, lang::Diagnostics& diagnostics);

  // Sites of one code in one file go into one attachment; that of an event (a timer, a tracepoint) has one
  // site, for its cookie. A point that cannot be placed safely is a failure; one of many by a wildcard is
  // left out, and said. `returns` may add to the program.
  struct PointFailure {
    uint64_t cookie = 0;
    Error error;
  };
  struct Placement {
    std::vector<engine::Attachment> attachments;
    std::vector<PointFailure> failures;
    std::vector<std::string> warnings;
    size_t placed = 0;  // points
  };
  Placement attachments(const std::vector<CodeAtPoint>& points, ReturnProbes& returns);

 private:
  // match_probes.cpp
  std::optional<std::vector<probe::ImageFile>> files_of(const lang::AttachSpec& point,
                                                        lang::Diagnostics& diagnostics);
  Result<std::vector<probe::ImageFile>> find_files(const lang::AttachSpec& point) const;
  lang::ProbeMatches match_functions(const lang::AttachSpec& point, lang::Diagnostics& diagnostics);
  void match_address(const lang::AttachSpec& point, const probe::ImageFile& file,
                     const symbols::ImageSymbols& image, lang::ProbeMatches& matches);
  void match_line(const lang::AttachSpec& point, const probe::ImageFile& file,
                  const symbols::ImageSymbols& image, lang::ProbeMatches& matches);
  void match_names(const lang::AttachSpec& point, const probe::ImageFile& file,
                   const symbols::ImageSymbols& image, lang::ProbeMatches& matches);
  std::unordered_set<const symbols::FunctionSymbol*> repeated_names(
      const lang::AttachSpec& point, std::vector<const symbols::FunctionSymbol*> functions) const;
  bool is_same(const lang::AttachSpec& point, std::string_view one, std::string_view other) const;
  // Says in `matches` why not.
  bool can_be_probed(const lang::AttachSpec& point, const probe::ImageFile& file,
                     const symbols::ImageSymbols& image, const symbols::FunctionSymbol& function,
                     lang::ProbeMatches& matches) const;
  lang::ProbeMatches match_usdt(const lang::AttachSpec& point, lang::Diagnostics& diagnostics);
  lang::ProbeMatches match_tracepoints(const lang::AttachSpec& point) const;

  Status add_sites(const CodeAtPoint& point, ReturnProbes& returns,
                   std::vector<engine::Attachment>& attachments);
  Status add_entry(const CodeAtPoint& point, const ScriptTypes::Place& place, bool is_inproc,
                   std::vector<engine::Attachment>& attachments);
  Status add_returns(const CodeAtPoint& point, const ScriptTypes::Place& place, ReturnProbes& returns,
                     std::vector<engine::Attachment>& attachments);
  Status add_usdt(const CodeAtPoint& point, const symbols::ImageSymbols& image,
                  std::vector<engine::Attachment>& attachments);
  // event_probes.cpp
  Status add_event(const CodeAtPoint& point, std::vector<engine::Attachment>& attachments) const;
  engine::Attachment& group(uint32_t code, const std::string& file, engine::Attachment::Kind kind,
                            std::vector<engine::Attachment>& attachments) const;

  ScriptTypes& types_;
  ProbeScope scope_;
};

}  // namespace uscope::session
