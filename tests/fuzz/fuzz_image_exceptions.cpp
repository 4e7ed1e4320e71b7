// Unwind entries and landing pads of arbitrary images: found, bounded, and the same when asked again.
#include <cstdint>

#include "image/elf/elf_file.h"
#include "image/exceptions/landing_pads.h"

using namespace uscope;
using namespace uscope::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = ElfFile::from_bytes({data, size}, "fuzz");
  if (!file) return 0;
  UnwindEntries entries(*file);
  for (const AddressRange& range : file->executable_ranges()) {
    uint64_t at = range.begin.value;
    for (int pieces = 0; pieces < 64 && range.contains(ImageAddr{at}); ++pieces) {
      auto entry = entries.at(at);
      if (!entry) break;
      if (at < entry->begin || at >= entry->end) __builtin_trap();
      LandingPads pads = read_landing_pads(*file, *entry);
      if (pads.addresses.size() > size) __builtin_trap();
      at = entry->end;
    }
  }
  return 0;
}
