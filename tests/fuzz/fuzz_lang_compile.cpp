// Any bytes as a script, through every pass of the front end: a typed program or an error, nothing else.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lang/compile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uscope::lang;
  SourceSet sources;
  sources.add("fuzz", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  CompileInputs inputs;
  inputs.command_line.positional = {"one", "2"};
  inputs.allow_unsafe = true;
  auto program = compile(sources, 0, inputs, NoTypes(), diagnostics);
  if (program.has_value() == diagnostics.has_errors()) abort();
  diagnostics.render(sources);
  return 0;
}
