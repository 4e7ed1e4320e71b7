// Memory of a process of which it is certain that it stays readable for as long as the process has this
// image, so that a probe may load from it without a system call: what the executable brings along read-only,
// and the first thread's stack. Why these and no others: docs/decisions/inproc-reads.md. Looks once, changes
// nothing.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "engine/inproc/stub_emitter.h"
#include "process/maps.h"

namespace uscope::engine::inproc {

// Nothing where it cannot be told.
KnownMemory find_known_memory(pid_t pid);

// The same of given mappings; `executable` as /proc/PID/exe shows it, empty: not known, or on a file system
// where others can cut a running program's file short. What is mapped beyond the file's end is no memory.
KnownMemory known_memory_in(const process::Maps& maps, std::string_view executable, uint64_t file_bytes);

// How reads are done, as a sentence's part.
std::string how_memory_is_read(const MemoryPlaces& places);

}  // namespace uscope::engine::inproc
