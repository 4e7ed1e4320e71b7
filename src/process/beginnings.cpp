#include "process/beginnings.h"

#include <elf.h>
#include <fmt/format.h>

#include "base/bytes.h"
#include "base/fd.h"

namespace uscope::process {

Result<Beginnings> read_beginnings(pid_t pid) {
  Beginnings found;
  TRY(std::string auxv, read_text_file(fmt::format("/proc/{}/auxv", pid)));
  for (ByteReader reader(as_bytes(auxv)); reader.remaining() >= 16;) {
    const uint64_t type = reader.u64(), value = reader.u64();
    if (type == AT_ENTRY) found.entry = {value};
    if (type == AT_BASE) found.linker = {value};
  }
  if (found.entry.value == 0) return fail(fmt::format("process {} has no entry point", pid));
  return found;
}

}  // namespace uscope::process
