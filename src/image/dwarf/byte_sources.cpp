#include "image/dwarf/byte_sources.h"

#include <algorithm>

namespace uscope::image::dwarf {
namespace {

constexpr uint64_t max_bytes = 4096;  // a prefix is enough to tell places apart

ByteSource source_of(const LocPiece& piece, uint64_t byte) {
  int64_t at = int64_t(byte + piece.bit_offset / 8);
  switch (piece.kind) {
    case LocPiece::Kind::Bytes:
      return {ByteSource::Kind::Padding};
    case LocPiece::Kind::Register:
      return {ByteSource::Kind::Register, piece.ops[0].number, at};
    case LocPiece::Kind::Memory: {
      if (piece.ops.empty() || piece.ops[0].code != LocOp::Code::Register) return {};
      ByteSource source{ByteSource::Kind::Memory, piece.ops[0].number, at};
      for (size_t i = 1; i < piece.ops.size(); i++) {
        if (piece.ops[i].code == LocOp::Code::AddConst && !source.is_deref) {
          source.offset += piece.ops[i].value;
        } else if (piece.ops[i].code == LocOp::Code::Deref && i + 1 == piece.ops.size()) {
          source.is_deref = true;
        } else {
          return {};
        }
      }
      return source;
    }
    default:
      return {};
  }
}

}  // namespace

std::vector<ByteSource> byte_sources(const Location& location, uint64_t size) {
  std::vector<ByteSource> sources(std::min(size, max_bytes));
  uint64_t at = 0;
  for (const LocPiece& piece : location.pieces) {
    uint64_t bytes = piece.bit_size == 0 ? sources.size() : piece.bit_size / 8;
    for (uint64_t i = 0; i < bytes && at < sources.size(); i++, at++) sources[at] = source_of(piece, i);
  }
  return sources;
}

bool agree(const Location& a, const Location& b, uint64_t size) {
  auto left = byte_sources(a, size), right = byte_sources(b, size);
  for (size_t i = 0; i < left.size(); i++) {
    auto is_open = [](const ByteSource& source) {
      return source.kind == ByteSource::Kind::Unknown || source.kind == ByteSource::Kind::Padding;
    };
    if (!is_open(left[i]) && !is_open(right[i]) && left[i] != right[i]) return false;
  }
  return true;
}

}  // namespace uscope::image::dwarf
