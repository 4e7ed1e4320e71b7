// Which system calls a program's code makes in its target, and which of them it cannot do without.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "process/seccomp_filter.h"

namespace uscope::engine::inproc {

struct CallNeeds {
  bool reads_memory = false;
  bool has_rdfsbase = true;
};
std::vector<process::CallToCome> calls_to_come(const codegen::Program& program, const CallNeeds& needs);

}  // namespace uscope::engine::inproc
