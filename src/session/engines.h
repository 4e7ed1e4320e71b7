// Which engine runs a script, and the making of it. `auto` takes the in-process engine where a process is
// named and everything the script probes can live in it, else the kernel's.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inproc/target_life.h"
#include "lang/typed_program.h"
#include "session/child.h"
#include "session/patch_facts.h"
#include "session/script_types.h"

namespace uscope::session {

enum class EngineChoice { Auto, Kernel, Inproc };

struct ChosenEngine {
  bool is_inproc = false;
  std::string why;  // in a few words, for -v
};

// Those that may run it, the one to try first in front. An Error where the one that was asked for cannot.
Result<std::vector<ChosenEngine>> choose_engines(EngineChoice choice, const lang::TypedProgram& program,
                                                 std::optional<pid_t> pid, bool follows_forks);

// Makes it. `types` keeps the images that the in-process engine looks at.
class EngineMaker {
 public:
  explicit EngineMaker(ScriptTypes& types) : types_(types) {}
  // `child`: the process, where uscope has started it; stays where it is. `misfit`: for the in-process
  // engine, what may come over the process later.
  std::unique_ptr<engine::Engine> make(const ChosenEngine& chosen, std::optional<pid_t> pid, Child* child,
                                       bool follows_forks, engine::inproc::Misfit misfit);

 private:
  ScriptTypes& types_;
  std::map<std::string, std::unique_ptr<PatchFacts>> facts_;
};

}  // namespace uscope::session
