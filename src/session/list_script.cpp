#include "session/list_script.h"

#include <set>

#include "session/compile_script.h"

namespace uscope::session {
namespace {

using lang::AttachSpec;
using lang::ProbeKind;

// As -l shows it: events without their counts, nothing for what is no event.
std::string listed(const AttachSpec& point) {
  std::string kind(lang::spell(point.kind));
  switch (point.kind) {
    case ProbeKind::kBegin:
    case ProbeKind::kEnd:
    case ProbeKind::kSelf:
    case ProbeKind::kTest:
    case ProbeKind::kBench:
      return "";
    case ProbeKind::kInterval:
    case ProbeKind::kProfile: {
      size_t unit = point.text.find(':') + 1;
      return kind + ":" + point.text.substr(unit, point.text.find(':', unit) - unit) + ":";
    }
    case ProbeKind::kSoftware:
    case ProbeKind::kHardware:
      return kind + ":" + point.event + ":";
    default:
      return point.text;
  }
}

}  // namespace

std::optional<std::string> list_script(const RunRequest& request, bool verbose, std::string& messages) {
  ScriptCompiler compiler(request, {request.pid, "", request.allow_unsafe, request.is_bpftrace});
  auto program = compiler.compile(messages);
  if (!program) return std::nullopt;
  std::string text;
  std::set<std::string> seen;
  for (const lang::TypedProbe& probe : program->probes)
    for (const AttachSpec& point : probe.attach_points) {
      std::string line = listed(point);
      if (line.empty() || !seen.insert(line).second) continue;
      text += line + "\n";
      if (verbose) text += compiler.arguments_text(point);
    }
  return text;
}

}  // namespace uscope::session
