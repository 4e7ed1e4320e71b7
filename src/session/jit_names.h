// Names of code that a runtime compiled in memory, from the perf map it writes (/tmp/perf-PID.map, as the
// process itself sees /tmp and counts its pid). Maps are read when first asked for and again as they grow:
// memory is used again, and newer lines tell of what is there now. A map that is neither the process's user's
// nor root's is not believed. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/address.h"
#include "image/perfmap/perf_map.h"

namespace uscope::session {

struct JitName {
  std::string name;
  ProcessAddr start;
};

class JitNames {
 public:
  // A map is looked at once in each batch, and when it does not have the address.
  std::optional<JitName> find(uint32_t pid, uint64_t address, uint64_t batch);

 private:
  struct File {
    image::PerfMap map;
    std::string path;
    uint64_t size = 0;  // read so far
    ino_t inode = 0;
    uint64_t batch = 0;  // of the last look
    std::optional<uid_t> owner;
  };

  void read_more(File& file);

  std::map<uint32_t, File> files_;
};

}  // namespace uscope::session
