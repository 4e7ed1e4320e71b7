// A perf map of any bytes, arriving in two pieces.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "image/perfmap/perf_map.h"

using namespace uscope;
using namespace uscope::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  size_t cut = text.empty() ? 0 : data[0] % text.size();
  PerfMap map;
  map.append(std::string(text.substr(0, cut)));
  if ((data[0] & 1) != 0) map.find({0x1000});
  map.append(std::string(text.substr(cut)));
  map.finish();
  const auto& entries = map.entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    const PerfMapEntry& entry = entries[i];
    PerfMapName parts = take_apart(entry.name);
    if (parts.function.size() > entry.name.size() || parts.qualified.size() > entry.name.size())
      __builtin_trap();
    if (entry.size == 0) continue;
    const PerfMapEntry* found = map.find(entry.address);
    if (found == nullptr || found < &entries[i]) __builtin_trap();  // something at least as new covers it
    if (entry.address < found->address || entry.address - found->address >= found->size) __builtin_trap();
    if (found != &entries[i] && !entry.superseded && !entry.name.starts_with("stub")) __builtin_trap();
  }
  map.match("*a*");
  return 0;
}
