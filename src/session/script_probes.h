// From a script's attach points to the sites an engine attaches to: expands wildcards for the compiler
// (lang's ProbeMatcher), and turns what was compiled into the engine's attachments. Entry probes take the
// cheapest equivalent site; return probes sit on the function's own exits. Opens images through ScriptTypes,
// which keeps them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "lang/diagnostics.h"
#include "lang/typed_program.h"
#include "session/return_probes.h"
#include "session/script_types.h"

namespace uscope::session {

// Which code runs at which attach point of the compiled program.
struct CodeAtPoint {
  const lang::AttachSpec* point = nullptr;
  uint32_t code = 0;
  uint64_t cookie = 0;
};

class ScriptProbes {
 public:
  ScriptProbes(ScriptTypes& types, std::optional<pid_t> pid) : types_(types), pid_(pid) {}

  // The attach points that one stands for: files and functions by name, with their addresses. Says what is
  // missing through the diagnostics.
  std::vector<lang::AttachSpec> match(const lang::AttachSpec& point, lang::Diagnostics& diagnostics);

  // Sites of one code in one file go into one attachment. A probe that cannot be placed safely is an Error;
  // one of many by a wildcard is left out, and said. `returns` may add to the program.
  struct Placement {
    std::vector<engine::Attachment> attachments;
    std::vector<std::string> warnings;
  };
  Result<Placement> attachments(const std::vector<CodeAtPoint>& points, ReturnProbes& returns);

 private:
  std::vector<lang::AttachSpec> match_functions(const lang::AttachSpec& point,
                                                lang::Diagnostics& diagnostics);
  std::vector<lang::AttachSpec> match_usdt(const lang::AttachSpec& point, lang::Diagnostics& diagnostics);
  Status add_sites(const CodeAtPoint& point, ReturnProbes& returns,
                   std::vector<engine::Attachment>& attachments);
  Status add_entry(const CodeAtPoint& point, const ScriptTypes::Place& place,
                   std::vector<engine::Attachment>& attachments);
  Status add_returns(const CodeAtPoint& point, const ScriptTypes::Place& place, ReturnProbes& returns,
                     std::vector<engine::Attachment>& attachments);
  Status add_usdt(const CodeAtPoint& point, const symbols::ImageSymbols& image,
                  std::vector<engine::Attachment>& attachments);
  engine::Attachment& group(uint32_t code, const std::string& file, engine::Attachment::Kind kind,
                            std::vector<engine::Attachment>& attachments) const;

  ScriptTypes& types_;
  std::optional<pid_t> pid_;
};

}  // namespace uscope::session
