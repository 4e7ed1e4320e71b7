// Names that libiberty is not used to; and stripping of text that never was a name.
#include <cstdint>
#include <string>

#include "image/demangle.h"

using namespace uscope::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* prefix : {"", "_Z", "_ZN", "_R"}) {
    std::string name = prefix + std::string(text);
    if (auto demangled = demangle(name)) {
      if (demangled->empty()) __builtin_trap();
      if (strip_parameters(*demangled).size() > demangled->size()) __builtin_trap();
    }
    (void)demangle_without_parameters(name);
  }
  if (strip_parameters(text).size() > text.size()) __builtin_trap();
  return 0;
}
