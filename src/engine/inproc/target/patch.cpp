#include "engine/inproc/target/patch.h"

#include <cstring>

namespace uscope::engine::inproc {

ProcessAddr Patch::jump_target() const {
  if (size >= 5 && replacement[0] == 0xe9) {
    int32_t distance;
    std::memcpy(&distance, &replacement[1], sizeof distance);
    return address + 5 + uint64_t(int64_t(distance));
  }
  if (size >= 2 && replacement[0] == 0xeb) return address + 2 + uint64_t(int64_t(int8_t(replacement[1])));
  return address;
}

}  // namespace uscope::engine::inproc
