// What `--info` prints: what this kernel and this build can do, line for line as bpftrace 0.27 says it, so
// that scripts which ask bpftrace can ask uscope. Tries each feature on the kernel; changes nothing.
#pragma once

#include <string>
#include <string_view>

namespace uscope::session {

std::string feature_text(std::string_view version);

}  // namespace uscope::session
