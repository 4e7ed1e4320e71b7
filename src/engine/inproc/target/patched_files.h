// Code that the in-process engine has patched, by any uscope, as places in files: for who would set
// breakpoints there. Reads the maps and the journals of other processes and touches nothing. What cannot be
// read is left out.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/address.h"

namespace uscope::engine::inproc {

// The patches of one file in one process.
struct PatchedFile {
  pid_t pid = 0;
  dev_t device = 0;  // as stat() tells
  ino_t inode = 0;
  struct Place {
    FileOffset begin, end;  // of the instructions that are not executed there any more
  };
  std::vector<Place> places;  // by offset, not overlapping

  bool covers(FileOffset offset) const;
};

// Of one process, or of all, which takes long.
std::vector<PatchedFile> find_patched_files(std::optional<pid_t> pid);

// Whether it is worth looking: 5 us a process. (One that was left behind by a guardian that was killed is
// found by its number only.)
bool is_guardian_at_work();

}  // namespace uscope::engine::inproc
