// Unwind tables from arbitrary bytes: the first byte says whether they are .eh_frame, .debug_frame or an
// image.
#include <cstdint>

#include "image/elf/elf_file.h"
#include "image/unwind/frame_entries.h"
#include "image/unwind/frame_program.h"
#include "image/unwind/unwind_table.h"

using namespace uscope;
using namespace uscope::image;

namespace {

void check_image(Bytes bytes) {
  auto file = ElfFile::from_bytes(bytes, "fuzz");
  if (!file) return;
  UnwindTable table = read_unwind_table(*file);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    if (table.rows[i].rule >= table.rules.size()) __builtin_trap();
    if (i > 0 && table.rows[i].offset <= table.rows[i - 1].offset) __builtin_trap();
  }
  if (!table.rows.empty() && table.rows[0].offset != 0) __builtin_trap();
}

void check_section(const FrameSection& section) {
  for_each_entry(section, [&](const FunctionEntry& entry) {
    uint64_t last = entry.begin;
    bool is_first = true;
    run_frame_program(entry, section.address, [&](uint64_t address, const UnwindRule& rule) {
      if (address < last || (!is_first && address == last)) __builtin_trap();
      if (rule.base > 15) __builtin_trap();
      last = address;
      is_first = false;
    });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Bytes bytes(data + 1, size - 1);
  if (data[0] % 3 == 0) check_image(bytes);
  if (data[0] % 3 == 1) check_section({bytes, 0x1000, true});
  if (data[0] % 3 == 2) check_section({bytes, 0, false});
  return 0;
}
