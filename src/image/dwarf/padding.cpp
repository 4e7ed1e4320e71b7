#include "image/dwarf/padding.h"

#include <algorithm>

namespace uscope::image::dwarf {
namespace {

using Kind = Type::Kind;
constexpr uint64_t max_bytes = 4096;

void mark_used(TypeId id, uint64_t offset, const TypeLookup& lookup, int depth, std::vector<bool>& used) {
  const Type* type = &strip_aliases(lookup(id), lookup);
  bool has_members = (type->kind == Kind::Struct || type->kind == Kind::Class) &&
                     type->variant_parts.empty() && !type->is_declaration && depth < 16;
  if (!has_members) {
    for (uint64_t i = offset; i < offset + type->size && i < used.size(); i++) used[i] = true;
    return;
  }
  for (const Member& member : type->members) {
    if (member.is_static) continue;
    if (member.is_virtual_base) {  // somewhere: nothing is surely padding
      std::fill(used.begin(), used.end(), true);
    } else if (member.bit_size != 0) {
      uint64_t last = (member.bit_offset + member.bit_size - 1) / 8;
      for (uint64_t i = member.bit_offset / 8; i <= last && offset + i < used.size(); i++)
        used[offset + i] = true;
    } else if (offset + member.offset < used.size()) {
      mark_used(member.type, offset + member.offset, lookup, depth + 1, used);
    }
  }
}

}  // namespace

std::vector<bool> used_bytes(TypeId type, const TypeLookup& lookup) {
  std::vector<bool> used(std::min(lookup(type).size, max_bytes));
  mark_used(type, 0, lookup, 0, used);
  return used;
}

void mark_padding(Location& location, TypeId type, const TypeLookup& lookup) {
  std::vector<bool> used = used_bytes(type, lookup);
  uint64_t at = 0;
  for (LocPiece& piece : location.pieces) {
    uint64_t bytes = piece.bit_size / 8;
    if (bytes > used.size() - std::min<uint64_t>(at, used.size())) return;
    bool is_padding = piece.kind == LocPiece::Kind::OptimizedOut && piece.bit_size % 8 == 0 && bytes > 0;
    for (uint64_t i = 0; i < bytes && is_padding; i++) is_padding = !used[at + i];
    if (is_padding) {
      piece = {
          .kind = LocPiece::Kind::Bytes, .bytes = std::vector<uint8_t>(bytes), .bit_size = piece.bit_size};
    }
    at += bytes;
  }
}

}  // namespace uscope::image::dwarf
