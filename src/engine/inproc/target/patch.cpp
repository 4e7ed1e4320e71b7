#include "engine/inproc/target/patch.h"

#include <cstring>

#include "x86/encode.h"

namespace uscope::engine::inproc {

ProcessAddr Patch::hole_target() const {
  const unsigned at = hole_offset.value_or(0);
  if (at + x86::near_jump_size > size || replacement[at] != 0xe9) return address + at;
  int32_t distance;
  std::memcpy(&distance, &replacement[at + 1], sizeof distance);
  return address + at + x86::near_jump_size + uint64_t(int64_t(distance));
}

}  // namespace uscope::engine::inproc
