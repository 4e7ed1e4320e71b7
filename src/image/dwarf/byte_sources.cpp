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

// What comes out if the register, the only one, holds `incoming`. Knows what slices are made of.
std::optional<uint64_t> computed(const std::vector<LocOp>& ops, uint64_t incoming) {
  std::vector<uint64_t> stack;
  for (const LocOp& op : ops) {
    using Code = LocOp::Code;
    if (op.code == Code::Register || op.code == Code::Constant) {
      stack.push_back(op.code == Code::Register ? incoming : uint64_t(op.value));
      continue;
    }
    if (stack.empty()) return {};
    if (op.code == Code::AddConst) {
      stack.back() += uint64_t(op.value);
      continue;
    }
    if (stack.size() < 2) return {};
    const uint64_t right = stack.back();
    stack.pop_back();
    uint64_t& left = stack.back();
    switch (op.code) {
      case Code::And:
        left &= right;
        break;
      case Code::Shl:
        left = right < 64 ? left << right : 0;
        break;
      case Code::Shr:
        left = right < 64 ? left >> right : 0;
        break;
      case Code::Sar:
        left = uint64_t(int64_t(left) >> std::min<uint64_t>(right, 63));
        break;
      default:
        return {};
    }
  }
  if (stack.size() != 1) return {};
  return stack[0];
}

}  // namespace

std::optional<LocPiece> as_register_bytes(const LocPiece& piece, uint64_t at, uint64_t bytes, bool is_bool) {
  if (piece.kind != LocPiece::Kind::Value || piece.bit_offset != 0 || bytes == 0) return {};
  const uint64_t skipped = at % 8;
  if (skipped + bytes > 8) return {};
  std::optional<uint32_t> number;
  for (const LocOp& op : piece.ops) {
    if (op.code != LocOp::Code::Register) continue;
    if (number && *number != op.number) return {};
    number = op.number;
  }
  if (!number) return {};
  const uint64_t mask = is_bool ? 1 : UINT64_MAX >> (64 - 8 * bytes);
  // Each bit by itself shows masks and shifts, the mixed ones what is added.
  auto is_slice_of = [&](uint64_t incoming) {
    auto value = computed(piece.ops, incoming);
    return value && (*value & mask) == ((incoming >> (8 * skipped)) & mask);
  };
  uint64_t mixed = 0x9e3779b97f4a7c15;
  for (int bit = 0; bit < 64; bit++, mixed = mixed * 6364136223846793005 + 1442695040888963407) {
    if (!is_slice_of(uint64_t(1) << bit) || !is_slice_of(mixed)) return {};
  }
  return LocPiece{.kind = LocPiece::Kind::Register,
                  .ops = {{LocOp::Code::Register, *number, 0}},
                  .bit_size = piece.bit_size,
                  .bit_offset = 8 * skipped};
}

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

bool same_bytes(const Location& a, const Location& b, uint64_t from, uint64_t to,
                const std::vector<bool>& used) {
  auto left = byte_sources(a, to), right = byte_sources(b, to);
  for (uint64_t i = from; i < left.size(); i++) {
    if (i < used.size() && !used[i]) continue;
    auto is_known = [](const ByteSource& source) {
      return source.kind == ByteSource::Kind::Register || source.kind == ByteSource::Kind::Memory;
    };
    if (!is_known(left[i]) || !is_known(right[i]) || left[i] != right[i]) return false;
  }
  return true;
}

}  // namespace uscope::image::dwarf
