// What the kernel told a process's program when it was executed (its auxiliary vector). Only looks.
#pragma once

#include <sys/types.h>

#include "base/address.h"
#include "base/result.h"

namespace uscope::process {

struct Beginnings {
  ProcessAddr entry;   // of the program itself
  ProcessAddr linker;  // where its dynamic linker is loaded; 0 if it has none
};

Result<Beginnings> read_beginnings(pid_t pid);

}  // namespace uscope::process
