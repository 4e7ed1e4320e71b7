// Go's tables in an image of arbitrary bytes: either as they are, or as the contents of a well-formed image
// that has text, read-only data and data segments, so that the fuzzer need not learn ELF first.
#include <cstdint>
#include <cstring>
#include <string>

#include "image/elf/elf_file.h"
#include "image/go/build_info.h"
#include "image/go/pclntab.h"

using namespace uscope;
using namespace uscope::image;

namespace {

std::string as_image(Bytes contents) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  constexpr uint64_t start = 4096;
  Elf64_Phdr segments[2] = {};
  segments[0] = {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_offset = 0,
                 .p_vaddr = 0x400000,
                 .p_filesz = start,
                 .p_memsz = 0x100000};
  segments[1] = {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_W,
                 .p_offset = start,
                 .p_vaddr = 0x600000,
                 .p_filesz = contents.size(),
                 .p_memsz = contents.size()};
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  image.append(reinterpret_cast<const char*>(segments), sizeof segments);
  image.resize(start);
  image.append(as_text(contents));
  return image;
}

void read(Bytes bytes) {
  auto file = ElfFile::from_bytes(bytes, "fuzz");
  if (!file) return;
  (void)read_go_build_info(*file);
  auto table = Pclntab::find(*file);
  if (!table || !*table) return;
  int left = 64;
  for (const GoFunction& function : (*table)->functions()) {
    if (function.name.empty() || function.size == 0) __builtin_trap();
    if (left-- == 0) break;
    for (const GoInlinedCall& call : (*table)->inlined_calls(function)) {
      for (const AddressRange& range : call.ranges) {
        if (range.begin < function.entry || range.begin + range.size > function.entry + function.size)
          __builtin_trap();
      }
    }
    for (const GoLine& line : (*table)->lines(function)) {
      if (line.size == 0 || line.begin - function.entry >= function.size) __builtin_trap();
    }
    if ((*table)->frames_at(function.entry).empty()) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes{data, size};
  read(bytes);
  std::string image = as_image(bytes);
  read(as_bytes(image));
  return 0;
}
