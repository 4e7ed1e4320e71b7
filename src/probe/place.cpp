#include "probe/place.h"

#include "probe/fetch.h"

namespace uscope::probe {
namespace {

using image::LocOp;
using image::LocPiece;

Operand unavailable(std::string reason) {
  Operand operand;
  operand.reason = std::move(reason);
  return operand;
}

Operand register_operand(uint32_t number) {
  Operand operand;
  operand.inner = kernel_register(number);
  if (operand.inner.empty())
    return unavailable(number >= 17 && number <= 32
                           ? "is in the vector register xmm" + std::to_string(number - 17) +
                                 ", which the kernel's probes cannot read"
                           : "is in a register the kernel's probes cannot read");
  operand.kind = Operand::Kind::Register;
  return operand;
}

// Turns a location's steps into nested fetches. What is on the machine's stack is a pending address or value:
// Register alone, or Memory (an address: inner + offset, not yet read).
Operand run(const std::vector<LocOp>& ops, uint64_t static_base, bool ops_yield_address) {
  Operand top;
  bool have = false;
  for (const LocOp& op : ops) {
    switch (op.code) {
      case LocOp::Code::Register: {
        if (have) return unavailable("is computed from several registers");
        Operand base = register_operand(op.number);
        if (base.kind == Operand::Kind::Unavailable) return base;
        top.kind = Operand::Kind::Memory;
        top.inner = base.inner;
        top.offset = 0;
        have = true;
        break;
      }
      case LocOp::Code::Address:
        if (have) return unavailable("is computed from several addresses");
        top.kind = Operand::Kind::Static;
        top.offset = op.value - int64_t(static_base);
        have = true;
        break;
      case LocOp::Code::Constant:
        if (have) return unavailable("is computed");
        top.kind = Operand::Kind::Constant;
        top.offset = op.value;
        have = true;
        break;
      case LocOp::Code::AddConst:
        top.offset += op.value;
        break;
      case LocOp::Code::Deref:
        if (op.number != 8) return unavailable("is reached through a pointer that is not 8 bytes wide");
        top.inner = top.text();
        top.kind = Operand::Kind::Memory;
        top.offset = 0;
        break;
      case LocOp::Code::EntryValue:
        return unavailable("is known only as the value a register had on entry to the function");
      case LocOp::Code::TlsAddress:
        return unavailable("is thread-local, which the kernel's syntax cannot address");
      default:
        return unavailable("is computed, which the kernel's syntax cannot express");
    }
  }
  if (!have) return unavailable("has no place here");
  if (ops_yield_address) return top;
  // The value itself is asked for: only an untouched register, a constant or a plain read is one.
  if (top.kind == Operand::Kind::Constant) return top;
  if (top.kind == Operand::Kind::Memory && top.offset == 0) {
    if (top.inner.starts_with('%')) {
      top.kind = Operand::Kind::Register;
      return top;
    }
    if (ops.back().code == LocOp::Code::Deref) {
      // inner is `+off(base)`, already the read that yields the value.
      top.kind = Operand::Kind::Register;
      return top;
    }
  }
  return unavailable("is computed, which the kernel's syntax cannot express");
}

Operand operand_of(const LocPiece& piece, uint64_t static_base) {
  switch (piece.kind) {
    case LocPiece::Kind::Register: {
      Operand operand = register_operand(piece.ops.at(0).number);
      operand.bit_offset = uint32_t(piece.bit_offset);
      return operand;
    }
    case LocPiece::Kind::Memory: {
      Operand operand = run(piece.ops, static_base, true);
      if (operand.kind == Operand::Kind::Constant)
        return unavailable("is at a fixed address outside the image");
      return operand;
    }
    case LocPiece::Kind::Value:
      return run(piece.ops, static_base, false);
    case LocPiece::Kind::Bytes: {
      if (piece.bytes.size() > 8) return unavailable("is a constant of more than 8 bytes");
      Operand operand;
      operand.kind = Operand::Kind::Constant;
      uint64_t value = 0;
      for (size_t i = piece.bytes.size(); i-- > 0;) value = value << 8 | piece.bytes[i];
      operand.offset = int64_t(value);
      return operand;
    }
    case LocPiece::Kind::OptimizedOut:
      break;
  }
  return unavailable(piece.reason.empty() ? "is optimized out here" : piece.reason);
}

}  // namespace

std::string Operand::text() const {
  switch (kind) {
    case Kind::Register:
      return inner;
    case Kind::Constant:
      return "\\" + std::to_string(offset);
    case Kind::Static:
      return "@+" + std::to_string(offset);
    case Kind::Memory:
      return (offset < 0 ? "" : "+") + std::to_string(offset) + "(" + inner + ")";
    case Kind::Unavailable:
      break;
  }
  return "";
}

Operand Place::select(uint64_t offset, uint64_t size) const {
  for (const Part& part : parts) {
    if (offset < part.begin) continue;
    uint64_t within = offset - part.begin;
    if (part.size != 0 && within >= part.size) continue;
    if (part.size != 0 && size > part.size - within) return unavailable("is spread over several registers");
    Operand operand = part.operand;
    switch (operand.kind) {
      case Operand::Kind::Memory:
      case Operand::Kind::Static:
        operand.offset += int64_t(within);
        break;
      case Operand::Kind::Register:
        operand.bit_offset += uint32_t(within * 8);
        break;
      case Operand::Kind::Constant:
        operand.offset = within < 8 ? int64_t(uint64_t(operand.offset) >> (within * 8)) : 0;
        break;
      case Operand::Kind::Unavailable:
        break;
    }
    if (operand.kind == Operand::Kind::Register && operand.bit_offset + size * 8 > 64)
      return unavailable("does not fit the register it is said to be in");
    return operand;
  }
  return unavailable("has no place for this part here");
}

Place Place::at(uint64_t offset) const {
  Place place;
  for (const Part& part : parts) {
    if (part.size != 0 && part.begin + part.size <= offset) continue;
    Part moved = part;
    if (part.begin >= offset) {
      moved.begin = part.begin - offset;
    } else {
      uint64_t within = offset - part.begin;
      moved.begin = 0;
      if (part.size != 0) moved.size = part.size - within;
      Operand& operand = moved.operand;
      if (operand.kind == Operand::Kind::Register)
        operand.bit_offset += uint32_t(within * 8);
      else if (operand.kind == Operand::Kind::Constant)
        operand.offset = within < 8 ? int64_t(uint64_t(operand.offset) >> (within * 8)) : 0;
      else
        operand.offset += int64_t(within);
    }
    place.parts.push_back(std::move(moved));
  }
  return place;
}

Place place_of(const image::Location& location, uint64_t static_base) {
  Place place;
  uint64_t begin = 0;
  for (const LocPiece& piece : location.pieces) {
    Place::Part part;
    part.begin = begin;
    part.size = piece.bit_size / 8;
    part.operand =
        piece.bit_size % 8 != 0 ? unavailable("is split inside a byte") : operand_of(piece, static_base);
    begin += part.size;
    place.parts.push_back(std::move(part));
  }
  return place;
}

Place pointee(const Operand& pointer) {
  Operand memory;
  if (pointer.kind == Operand::Kind::Unavailable) {
    memory = pointer;
  } else if (pointer.kind == Operand::Kind::Constant) {
    memory = unavailable("is behind a constant pointer");
  } else if (pointer.bit_offset != 0) {
    memory = unavailable("is behind a pointer that shares its register");
  } else {
    memory.kind = Operand::Kind::Memory;
    memory.inner = pointer.text();
  }
  return Place{{Place::Part{0, 0, memory}}};
}

}  // namespace uscope::probe
