// The first byte picks: a note description's argument text, or an image with notes.
#include <cstdint>

#include "image/elf/elf_file.h"
#include "image/usdt/notes.h"

using namespace uscope;
using namespace uscope::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] != 0x7f) {
    for (const UsdtArgument& argument : parse_usdt_arguments(as_text({data, size}))) {
      const UsdtOperand& operand = argument.operand;
      bool known = operand.kind != UsdtOperand::Kind::Unknown;
      if (known && argument.size != 1 && argument.size != 2 && argument.size != 4 && argument.size != 8)
        __builtin_trap();
      if (operand.kind == UsdtOperand::Kind::Register && !operand.base) __builtin_trap();
    }
    return 0;
  }
  auto file = ElfFile::from_bytes({data, size}, "fuzz");
  if (!file) return 0;
  for (const UsdtProbe& probe : read_usdt_probes(*file)) {
    if (probe.provider.empty() || probe.name.empty() || probe.sites.empty()) __builtin_trap();
  }
  return 0;
}
