// `-l` of a script: the probes that it would attach to.
#pragma once

#include <optional>
#include <string>

#include "session/run.h"

namespace uscope::session {

// One line a probe; with `verbose`, the arguments below. Nothing if the script is wrong; `messages` gets what
// the compiler has to say.
std::optional<std::string> list_script(const RunRequest& request, bool verbose, std::string& messages);

}  // namespace uscope::session
