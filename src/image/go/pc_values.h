// Go's delta-encoded tables of a value per code range (lines, files, inline indices). Internal to go/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace uscope::image {

// A varint of at most 32 bits: longer ones are damage, and must not make a hostile table slow to reject.
inline std::optional<uint32_t> read_go_varint(ByteReader& reader) {
  uint32_t value = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    uint8_t byte = reader.u8();
    if (reader.failed()) return std::nullopt;
    value |= uint32_t(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

// Calls visit(begin, end, value) for each range of a function of `limit` bytes, offsets from its entry, until
// it returns false. Returns where the table itself ends (beyond `limit` if it lies), or nothing if it is
// damaged.
template <typename Visit>
std::optional<uint64_t> walk_pc_values(Bytes table, uint64_t quantum, uint64_t limit, Visit&& visit) {
  ByteReader reader(table);
  int32_t value = -1;
  uint64_t pc = 0;
  while (pc <= limit) {
    auto delta = read_go_varint(reader);
    if (!delta) return std::nullopt;
    if (*delta == 0 && pc != 0) return pc;
    auto zigzag = int32_t(*delta >> 1) ^ -int32_t(*delta & 1);
    value = int32_t(uint32_t(value) + uint32_t(zigzag));
    auto step = read_go_varint(reader);
    // Progress is what bounds the walk.
    if (!step || *step == 0) return std::nullopt;
    uint64_t begin = pc;
    pc += *step * quantum;
    if (begin < limit && !visit(begin, std::min(pc, limit), int64_t(value))) return pc;
  }
  return pc;
}

}  // namespace uscope::image
