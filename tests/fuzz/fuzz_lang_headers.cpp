// Any bytes as a header that a script includes, and that includes itself: it is read, in bounds, or passed
// over.
#include <cstdint>
#include <string>

#include "lang/compile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uscope::lang;
  if (size > 4096) return 0;
  std::string text(reinterpret_cast<const char*>(data), size);
  SourceSet sources;
  sources.add("fuzz", "#include <a.h>\nbegin { print(sizeof(struct a)); print(A); }");
  CompileInputs inputs;
  inputs.find_header = [&](const std::string& name, const std::string&) -> std::optional<HeaderFile> {
    return HeaderFile{name, text};
  };
  Diagnostics diagnostics;
  NoTypes types;
  auto program = compile(sources, 0, inputs, types, diagnostics);
  if (!program) (void)diagnostics.render(sources);
  return 0;
}
