// Any bytes as a script: it parses or says why not; what parses, prints; what was printed parses to the same
// text.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lang/parser.h"
#include "lang/printer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uscope::lang;
  SourceSet sources;
  sources.add("fuzz", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  auto program = parse(sources, 0, diagnostics);
  if (!program) {
    if (!diagnostics.has_errors() || diagnostics.render(sources).empty()) abort();
    return 0;
  }
  std::string printed = print(*program, sources);
  SourceSet again;
  again.add("printed", printed);
  auto reparsed = parse(again, 0, diagnostics);
  if (!reparsed) abort();
  if (print(*reparsed, again) != printed) abort();
  return 0;
}
