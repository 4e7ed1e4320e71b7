// What the files that a process has mapped say of its code, to tell what somebody has changed in it. Looks at
// the process's maps once.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>

#include "base/fd.h"
#include "process/maps.h"

namespace uscope::engine::inproc {

class StoredText {
 public:
  explicit StoredText(pid_t pid) : pid_(pid) {}

  // False: nobody knows, for all of it.
  bool read(ProcessAddr start, std::span<uint8_t> out);

 private:
  bool open_around(ProcessAddr address);

  pid_t pid_;
  std::optional<process::Maps> maps_;
  const process::Mapping* mapping_ = nullptr;  // the one last asked for
  Fd file_;                                    // that it is of
};

}  // namespace uscope::engine::inproc
