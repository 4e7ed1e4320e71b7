// From the file part of a probe to the files it means: a path, a bare program or library name (bash, libc), a
// glob, or, with a process given, the images that it maps. Looks at the file system and /proc; opens no
// image.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace uscope::probe {

struct ImageFile {
  std::string shown;   // what the user reads: as typed, or the path within the process's own file system
  std::string opened;  // what uscope opens
  std::string root;    // prefix for debug files: /proc/PID/root, or empty
};

// A missing file is an Error that names it and what is near. A glob that matches nothing yields an empty
// list.
Result<std::vector<ImageFile>> find_image_files(const std::string& file, std::optional<pid_t> pid);

// Every image that a process maps: its executable first, then its libraries in order of address, each once.
Result<std::vector<ImageFile>> images_of_process(pid_t pid);

}  // namespace uscope::probe
