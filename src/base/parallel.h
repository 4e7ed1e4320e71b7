// Work that falls apart into many small pieces, on all processors. The pieces must not depend on one another;
// returns when all are done. An exception in one of them ends the program.
#pragma once

#include <cstddef>
#include <functional>

namespace uscope {

// Calls `work` with each of 0 … count-1, on several threads at once where there is enough to do.
void for_each_in_parallel(size_t count, const std::function<void(size_t)>& work);

}  // namespace uscope
