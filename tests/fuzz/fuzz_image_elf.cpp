// Everything the ELF reader answers about arbitrary bytes.
#include <cstdint>

#include "image/elf/debug_files.h"
#include "image/elf/elf_file.h"
#include "image/elf/relocated.h"
#include "image/elf/symbols.h"

using namespace uscope;
using namespace uscope::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = ElfFile::from_bytes({data, size}, "fuzz");
  if (!file) return 0;
  constexpr uint64_t limit = 1 << 20;
  uint64_t sum =
      file->build_id().size() + file->comments().size() + file->interpreter().size() + uint64_t(file->type());
  if (auto link = file->debug_link()) sum += link->name.size();
  if (auto link = file->debug_alt_link()) sum += link->name.size() + link->build_id.size();
  for (const Section& section : file->sections()) {
    auto contents = file->read_section(section, limit);
    if (contents) sum += contents->bytes.size();
    if (file->section_at(section.address) != nullptr) ++sum;
  }
  for (const Segment& segment : file->segments()) {
    auto offset = file->to_file_offset(segment.address);
    if (offset && offset->value >= size) __builtin_trap();
    if (offset && file->loads().size() < 8 && !file->to_image_addr(*offset)) __builtin_trap();
    sum += file->bytes_from(segment.address).size();
  }
  for (const SymbolList& list : {read_function_symbols(*file), read_data_symbols(*file)}) {
    for (const Symbol& symbol : list.symbols) {
      if (symbol.name.empty()) __builtin_trap();
      if (symbol.size > UINT64_MAX - symbol.address.value) __builtin_trap();
      sum += symbol.name.size() + symbol.version.size();
    }
  }
  (void)file->mini_debug_info(limit);
  RelocatedImage relocated(*file);
  sum += relocated.find_pointer(0x1000, 16).size();
  // Keeps the compiler from leaving the reads out.
  return sum == 0xdeadbeefcafe ? 1 : 0;
}
