// A device's number as the kernel itself has it, which is not as programs see it.
#pragma once

#include <sys/sysmacros.h>
#include <sys/types.h>

#include <cstdint>

namespace uscope::session {

inline uint64_t kernel_device(dev_t device) { return uint64_t(major(device)) << 20 | minor(device); }

}  // namespace uscope::session
