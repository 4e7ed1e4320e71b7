// The codes of uscope's own probes in the target, by which it tells uscope of itself: see target/hooks.h.
#pragma once

#include "codegen/program.h"

namespace uscope::engine::inproc {

// Gives a notice of this kind, whatever the arguments.
codegen::Code notice_code(uint32_t kind);
// At the C library's functions of these names: give a notice if the call is one that puts the thread under
// seccomp.
codegen::Code prctl_code();
codegen::Code syscall_code();

}  // namespace uscope::engine::inproc
