// Runs a program under ptrace with a one-shot breakpoint on each given address, and says what the registers
// were there. For checking places against what really happens.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <functional>
#include <string>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf::testing {

// A stopped thread of the program.
struct Stopped {
  pid_t pid = 0;
  user_regs_struct registers{};
  user_fpregs_struct vectors{};
  uint64_t bias = 0;  // process address - image address

  uint64_t general(uint32_t dwarf_number) const;
  bool read(uint64_t address, void* to, size_t size) const;
  // The bytes of a variable; nothing if its place does not yield them all.
  std::optional<std::vector<uint8_t>> bytes_of(const Location& location, uint64_t size) const;
  // The value as the programs of these tests print it.
  std::string format(const DebugInfo& info, TypeId type, const std::vector<uint8_t>& bytes,
                     int depth = 0) const;
};

// Returns the program's standard output. `visit` is called once for each address that is reached.
std::string run_traced(const ElfFile& elf, const std::vector<std::string>& command,
                       const std::vector<ImageAddr>& addresses,
                       const std::function<void(ImageAddr, const Stopped&)>& visit);

}  // namespace uscope::image::dwarf::testing
