// Ending many links or events without waiting for each in turn.
#pragma once

#include <vector>

#include "base/fd.h"

namespace uscope::engine::kernel {

// Closes them all and returns when every one is gone. The kernel lets whoever closes a uprobe wait until no
// processor can still be in its handler, some 20 ms, but that wait serves all who wait at the same time.
void close_all(std::vector<Fd> fds);

}  // namespace uscope::engine::kernel
