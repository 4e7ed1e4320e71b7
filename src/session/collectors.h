// Garbage collectors that look for objects on the stacks of threads that they stop by signals: of a thread
// that is in a probe of the in-process engine they might not see all. See docs/decisions/inproc-code.md.
// Known by the names of libraries, by what an image exports and, for those linked into the program, by its
// symbol table. Only looks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/address.h"

namespace uscope::session {

class Collectors {
 public:
  explicit Collectors(pid_t pid) : pid_(pid) {}
  // Why a process that has loaded one since the last look is better not traced from inside.
  std::optional<std::string> look();

 private:
  pid_t pid_;
  std::set<std::tuple<dev_t, ino_t, ProcessAddr>> seen_;  // images, by where they are loaded
};

}  // namespace uscope::session
