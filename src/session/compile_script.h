// From a script's text to code, and what is known of it: the part of a run that touches neither the kernel
// nor the traced programs. Shared by running, listing and -d.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "codegen/generate.h"
#include "lang/compile.h"
#include "session/run.h"
#include "session/script_places.h"
#include "session/script_probes.h"
#include "session/script_types.h"

namespace uscope::session {

class ScriptCompiler {
 public:
  ScriptCompiler(const RunRequest& request, ProbeScope scope);

  // Nothing if the script is wrong; `messages` gets what the compiler has to say.
  std::optional<lang::TypedProgram> compile(std::string& messages);
  // `child` is the process of -c; what is wrong at a place of the script is in `messages`, as compile() has
  // it.
  Result<codegen::Compiled> generate(const lang::TypedProgram& program, std::optional<pid_t> child,
                                     const ChosenEngine& engine, std::string& messages) const;

  ScriptProbes& probes() { return probes_; }
  ScriptTypes& types() { return types_; }
  // The arguments at a probe, as -lv shows them.
  std::string arguments_text(const lang::AttachSpec& point) const;
  // The tree as parsed, once more: for -d ast.
  std::string tree();

 private:
  lang::CompileInputs inputs();

  const RunRequest& request_;
  lang::SourceSet sources_;
  uint32_t source_ = 0;
  ScriptTypes types_;
  ScriptProbes probes_;
};

// What -d shows of a program after a stage.
std::string show_types(const lang::TypedProgram& program);

}  // namespace uscope::session
