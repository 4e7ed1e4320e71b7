#include "image/pe/native_format.h"

#include <algorithm>

namespace uscope::image {
namespace {

constexpr uint32_t kBlock = 16;

// Reads the raw value and says how many bits of it count. The low bits of the first byte say how many bytes
// follow.
uint32_t read_raw(ByteReader& reader, unsigned& bits) {
  uint32_t first = reader.u8();
  unsigned following = 0;
  while (following < 4 && (first >> following & 1) != 0) ++following;
  if (following == 4) {
    bits = 32;
    if ((first & 0x10) != 0) reader.skip(~uint64_t(0));  // malformed: fail the reader
    return reader.u32();
  }
  uint32_t value = first;
  for (unsigned i = 1; i <= following; ++i) value |= uint32_t(reader.u8()) << (8 * i);
  bits = 7 * (following + 1);
  return value >> (following + 1);
}

}  // namespace

uint32_t read_native_unsigned(ByteReader& reader) {
  unsigned bits = 0;
  return read_raw(reader, bits);
}

int32_t read_native_signed(ByteReader& reader) {
  unsigned bits = 0;
  uint32_t raw = read_raw(reader, bits);
  unsigned unused = 32 - std::clamp(bits, 1u, 32u);
  return int32_t(raw << unused) >> unused;
}

NativeArray::NativeArray(Bytes bytes) : bytes_(bytes) {
  ByteReader reader(bytes);
  uint32_t header = read_native_unsigned(reader);
  if (reader.failed()) return;
  base_ = reader.position();
  index_width_ = (header & 3) == 0 ? 1 : (header & 3) == 1 ? 2 : 4;
  // Each block of 16 has an index of its own, so the bytes bound the number of blocks.
  uint64_t blocks = reader.remaining() / index_width_;
  size_ = uint32_t(std::min<uint64_t>(header >> 2, blocks * kBlock));
}

std::optional<uint64_t> NativeArray::find(uint32_t index) const {
  if (index >= size_) return std::nullopt;
  ByteReader reader(bytes_, base_ + uint64_t(index / kBlock) * index_width_);
  uint64_t offset = base_ + reader.unsigned_of(index_width_);
  // A block is a binary tree over the low four bits of the index. A node says which children it has and how
  // far away the right one is; a node without children is a leaf for one index, which saves the levels below
  // it.
  for (uint32_t bit = kBlock / 2; bit > 0; bit /= 2) {
    reader.seek(offset);
    uint32_t node = read_native_unsigned(reader);
    if (reader.failed()) return std::nullopt;
    bool right = (index & bit) != 0;
    if (right && (node & 2) != 0) {
      offset += node >> 2;
    } else if (!right && (node & 1) != 0) {
      offset = reader.position();
    } else if ((node & 3) == 0 && node >> 2 == index % kBlock) {
      return reader.position();
    } else {
      return std::nullopt;
    }
  }
  if (offset >= bytes_.size()) return std::nullopt;
  return offset;
}

NativeHashtable::NativeHashtable(Bytes bytes) : bytes_(bytes) {
  if (bytes.empty()) return;
  unsigned shift = bytes[0] >> 2;
  unsigned width = bytes[0] & 3;
  if (shift > 31 || width > 2) return;
  buckets_ = uint64_t(1) << shift;
  index_width_ = 1u << width;
}

std::optional<NativeHashtable::Bucket> NativeHashtable::bucket(uint64_t index) const {
  ByteReader reader(bytes_, 1 + index * index_width_);
  Bucket found{1 + reader.unsigned_of(index_width_), 1 + reader.unsigned_of(index_width_)};
  if (reader.failed() || found.begin > found.end || found.end > bytes_.size()) return std::nullopt;
  return found;
}

}  // namespace uscope::image
