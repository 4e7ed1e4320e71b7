// Where uscope puts probes of its own into a process, to be told of what changes what can be probed: the
// function that the dynamic linker calls when libraries come and go (as debuggers use it, r_brk), those that
// execute another program, and those by which a program puts itself under seccomp. Only looks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inproc/target/deployment.h"
#include "process/maps.h"

namespace uscope::engine::inproc {

struct HookCodes {
  uint32_t libraries = 0, exec = 0, prctl = 0, syscall = 0;  // indexes into Program::codes
  bool wants_exec = false;
};

// The user's probes, and behind them what is to be attached beside them: nothing where the process has no
// such functions, or none that have a name.
std::vector<Attachment> with_hooks(pid_t pid, const std::vector<Attachment>& attachments,
                                   const HookCodes& codes, const FactsSource& facts);
// Those that can wait for a moment: to read the C library takes as long as all else of an attach. A command
// of -c has them from the start, it may go under seccomp at once.
std::vector<Attachment> late_hooks(pid_t pid, const std::vector<Attachment>& attachments,
                                   const HookCodes& codes, const FactsSource& facts);

}  // namespace uscope::engine::inproc
