// Where a file's code lies in a live process. A file may be loaded more than once (dlmopen); each loading
// gets its own patches. Only looks at maps.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "engine/inproc/target/patch.h"
#include "process/maps.h"

namespace uscope::engine::inproc {

struct Loading {
  process::MappedImage image;

  // The place of a byte of the file that is mapped as code the process alone sees; nothing if it is not.
  std::optional<ProcessAddr> code_at(FileOffset offset) const;
  // The place of a byte of the file that is mapped as data the process may write.
  std::optional<ProcessAddr> data_at(FileOffset offset) const;
  // What is mapped as code the process alone sees.
  std::vector<AddressSpan> code() const;
  // All of it, code and data.
  AddressSpan span() const { return {image.start(), image.end() - image.start()}; }
};

// The loadings of the file that `file` (as uscope opens it) is.
std::vector<Loading> find_loadings(pid_t pid, const process::Maps& maps, const std::string& file);

}  // namespace uscope::engine::inproc
