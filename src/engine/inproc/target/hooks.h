// Where uscope puts probes of its own into a process, to be told of what changes what can be probed: the
// function that the dynamic linker calls when libraries come and go (as debuggers use it, r_brk), and those
// that execute another program. Only looks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inproc/target/deployment.h"
#include "process/maps.h"

namespace uscope::engine::inproc {

struct HookCodes {
  uint32_t libraries = 0, exec = 0;  // indexes into Program::codes
  bool wants_libraries = false, wants_exec = false;
};

// What is to be attached beside the user's probes; empty where the process has no such functions, or none
// that have a name.
std::vector<Attachment> find_hooks(pid_t pid, const process::Maps& maps, const HookCodes& codes,
                                   const FactsSource& facts);

// Whether it is the program that the process runs, or its C library: neither comes later, nor goes.
bool is_always_loaded(pid_t pid, const process::Maps& maps, const std::string& file);

}  // namespace uscope::engine::inproc
