// What a user means by FILE or PID: a file's path, the name of a program on the PATH or of a library that the
// loader knows, or a process id, which stands for the executable that runs there. Only finds; opens nothing,
// attaches to nothing.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace uscope::session {

struct Target {
  std::optional<pid_t> pid;
  std::string path;   // open this
  std::string shown;  // how messages and output call it
  std::string root;   // where its file system is: "" or "/proc/PID/root"
};

// A file that is called like a number is meant by "./123".
Result<Target> find_target(std::string_view argument);
bool is_pid(std::string_view argument);

}  // namespace uscope::session
