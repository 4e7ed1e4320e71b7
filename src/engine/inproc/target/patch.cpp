#include "engine/inproc/target/patch.h"

#include <algorithm>
#include <cstring>

#include "x86/encode.h"

namespace uscope::engine::inproc {

bool Patch::is_in(Bytes now) const {
  if (size == 0 || now.size() != size) return false;
  const bool may_begin_so = now[0] == replacement[0] || now[0] == original[0] || now[0] == breakpoint;
  return may_begin_so && std::ranges::equal(now.subspan(1), replacement_bytes().subspan(1));
}

ProcessAddr Patch::hole_target() const {
  const unsigned at = hole_offset.value_or(0);
  if (at + x86::near_jump_size > size || replacement[at] != 0xe9) return address + at;
  int32_t distance;
  std::memcpy(&distance, &replacement[at + 1], sizeof distance);
  return address + at + x86::near_jump_size + uint64_t(int64_t(distance));
}

}  // namespace uscope::engine::inproc
