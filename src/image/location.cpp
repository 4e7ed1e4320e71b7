#include "image/location.h"

#include <algorithm>

namespace uscope::image {

bool Location::is_available() const {
  return !pieces.empty() && std::none_of(pieces.begin(), pieces.end(), [](const LocPiece& piece) {
    return piece.kind == LocPiece::Kind::OptimizedOut;
  });
}

std::optional<uint32_t> Location::as_register() const {
  if (pieces.size() != 1 || pieces[0].kind != LocPiece::Kind::Register || pieces[0].ops.empty()) return {};
  if (pieces[0].bit_offset != 0) return {};
  return pieces[0].ops[0].number;
}

std::optional<Location::Based> Location::as_memory_at_register() const {
  if (pieces.size() != 1 || pieces[0].kind != LocPiece::Kind::Memory || pieces[0].bit_offset != 0) return {};
  const auto& ops = pieces[0].ops;
  if (ops.empty() || ops[0].code != LocOp::Code::Register || ops.size() > 2) return {};
  if (ops.size() == 1) return Based{ops[0].number, 0};
  if (ops[1].code != LocOp::Code::AddConst) return {};
  return Based{ops[0].number, ops[1].value};
}

std::optional<ImageAddr> Location::as_static_address() const {
  if (pieces.size() != 1 || pieces[0].kind != LocPiece::Kind::Memory || pieces[0].bit_offset != 0) return {};
  const auto& ops = pieces[0].ops;
  if (ops.empty() || ops[0].code != LocOp::Code::Address || ops.size() > 2) return {};
  uint64_t offset = 0;
  if (ops.size() == 2) {
    if (ops[1].code != LocOp::Code::AddConst) return {};
    offset = uint64_t(ops[1].value);
  }
  return ImageAddr{uint64_t(ops[0].value) + offset};
}

}  // namespace uscope::image
