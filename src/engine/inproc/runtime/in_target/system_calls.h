// Every system call that code makes inside the target, the runtime's and the compiled probes' alike: no other
// compiles. A target under seccomp may be killed for one, so runtime/calls_to_come.cpp says of each when it
// is made, and a new one does not compile without that either.
#pragma once

#include <stdint.h>

namespace uscope::engine::inproc {

enum SystemCall : uint32_t {
  kGetPid = 39,
  kKill = 62,
  kGetUid = 102,
  kGetGid = 104,
  kSigaltstack = 131,
  kPrctl = 157,
  kArchPrctl = 158,
  kGetTid = 186,
  kFutex = 202,
  kClockGetTime = 228,
  kTgKill = 234,
  kProcessVmReadv = 310,
};

inline constexpr uint64_t kGetName = 16;        // prctl's
inline constexpr uint64_t kArchGetFs = 0x1003;  // arch_prctl's

}  // namespace uscope::engine::inproc
