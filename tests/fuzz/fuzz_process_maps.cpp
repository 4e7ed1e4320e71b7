// Arbitrary text as /proc/PID/maps, status and stat: the parsers must take it or refuse it, and what they
// take must hang together.
#include <cstdlib>

#include "base/bytes.h"
#include "process/info.h"
#include "process/maps.h"

using namespace uscope;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = as_text({data, size});
  if (auto maps = process::Maps::parse(text)) {
    size_t grouped = 0;
    for (const process::MappedImage& file : maps->files()) {
      if (file.mappings.empty() || file.end() < file.start()) std::abort();
      grouped += file.mappings.size();
    }
    if (grouped > maps->all().size() || maps->images().size() > maps->files().size()) std::abort();
    for (const process::Mapping& mapping : maps->all()) {
      const process::Mapping* found = maps->find(mapping.start);
      if (found && !found->contains(mapping.start)) std::abort();
    }
  }
  (void)process::parse_status(text);
  (void)process::parse_stat(text);
  return 0;
}
