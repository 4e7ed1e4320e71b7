#include "image/abi_go.h"

#include <algorithm>
#include <array>

namespace uscope::image {
namespace {

using Kind = Type::Kind;
constexpr int max_depth = 32;
constexpr size_t max_components = 64;
constexpr uint64_t max_size = 4096;  // far more than all registers hold, with padding
constexpr uint32_t rsp = 7, xmm0 = 17;
// AX BX CX DI SI R8 R9 R10 R11, by DWARF number.
constexpr std::array<uint32_t, 9> integer_registers = {0, 3, 2, 5, 4, 8, 9, 10, 11};
constexpr size_t float_registers = 15;

const Type& peel(TypeId id, const TypeLookup& lookup) {
  const Type* type = &lookup(id);
  for (int hop = 0; hop < 64 && (type->kind == Kind::Typedef || type->kind == Kind::Const); hop++) {
    type = &lookup(type->target);
  }
  return *type;
}

// False: registers cannot hold it.
bool flatten(const Type& type, uint64_t offset, const TypeLookup& lookup, int depth,
             std::vector<GoComponent>& out) {
  if (depth > max_depth || out.size() > max_components) return false;
  auto add = [&](uint64_t size, bool is_float = false) { out.push_back({offset, size, is_float}); };
  switch (type.kind) {
    case Kind::Bool:
    case Kind::Integer:
    case Kind::Character:
    case Kind::Enum:
      if (type.size == 0 || type.size > 8) return false;
      add(type.size);
      return true;
    case Kind::Float:
      if (type.size != 4 && type.size != 8) return false;
      add(type.size, true);
      return true;
    case Kind::Complex:
      if (type.size != 8 && type.size != 16) return false;
      add(type.size / 2, true);
      offset += type.size / 2;
      add(type.size / 2, true);
      return true;
    case Kind::Pointer:
    case Kind::GoMap:
    case Kind::GoChannel:
    case Kind::Function:
      add(8);
      return true;
    case Kind::GoString:
    case Kind::GoInterface:
    case Kind::GoSlice:
      for (uint64_t i = 0; i < (type.kind == Kind::GoSlice ? 3u : 2u); i++, offset += 8) add(8);
      return true;
    case Kind::Struct:
      if (type.size > max_size) return false;
      for (const Member& member : type.members) {
        if (member.offset > type.size) return false;  // in broken files only
        if (!flatten(peel(member.type, lookup), offset + member.offset, lookup, depth + 1, out)) return false;
      }
      return true;
    case Kind::Array: {
      auto count = type.dimensions.size() == 1 ? type.dimensions[0] : std::nullopt;
      if (!count || *count > 1) return false;
      return *count == 0 || flatten(peel(type.target, lookup), offset, lookup, depth + 1, out);
    }
    default:
      return false;
  }
}

uint64_t alignment_of(const Type& type, const TypeLookup& lookup, int depth) {
  if (depth > max_depth) return 8;
  if (type.kind == Kind::Struct) {
    uint64_t alignment = 1;
    for (const Member& member : type.members) {
      alignment = std::max(alignment, alignment_of(peel(member.type, lookup), lookup, depth + 1));
    }
    return alignment;
  }
  if (type.kind == Kind::Array) return alignment_of(peel(type.target, lookup), lookup, depth + 1);
  if (type.kind == Kind::Complex) return std::clamp<uint64_t>(type.size / 2, 1, 8);
  return std::clamp<uint64_t>(type.size, 1, 8);
}

// Hands out registers and stack room, in order.
class Assigner {
 public:
  Assigner(bool in_registers, const TypeLookup& lookup) : in_registers_(in_registers), lookup_(lookup) {}

  std::optional<GoPlace> assign(TypeId id) {
    const Type& type = peel(id, lookup_);
    bool is_known = type.size != 0 || type.kind == Kind::Struct || type.kind == Kind::Array;
    if (!is_known) return {};
    if (type.size == 0) return on_stack(type);
    if (in_registers_) {
      std::vector<GoComponent> components;
      if (flatten(type, 0, lookup_, 0, components)) {
        if (auto place = take_registers(components, type.size)) return place;
      }
    }
    return on_stack(type);
  }

  void reset_registers() { integers_ = floats_ = 0; }
  void align_stack() { stack_ = (stack_ + 7) / 8 * 8; }

 private:
  std::optional<GoPlace> take_registers(const std::vector<GoComponent>& components, uint64_t size) {
    size_t integers = integers_, floats = floats_;
    std::vector<uint32_t> registers;
    for (const GoComponent& component : components) {
      if (component.is_float ? floats >= float_registers : integers >= integer_registers.size()) return {};
      registers.push_back(component.is_float ? xmm0 + uint32_t(floats++) : integer_registers[integers++]);
    }
    integers_ = integers;
    floats_ = floats;
    return GoPlace{go_pieces(components, registers, size), true, 0};
  }

  GoPlace on_stack(const Type& type) {
    uint64_t alignment = alignment_of(type, lookup_, 0);
    stack_ = (stack_ + alignment - 1) / alignment * alignment;
    GoPlace place;
    place.stack_offset = stack_;
    place.location.pieces.push_back(
        {.kind = LocPiece::Kind::Memory,
         .ops = {{LocOp::Code::Register, rsp, 0}, {LocOp::Code::AddConst, 0, int64_t(8 + stack_)}}});
    stack_ += type.size;
    return place;
  }

  bool in_registers_;
  const TypeLookup& lookup_;
  size_t integers_ = 0, floats_ = 0;
  uint64_t stack_ = 0;
};

}  // namespace

std::optional<std::vector<GoComponent>> go_components(TypeId id, const TypeLookup& lookup) {
  std::vector<GoComponent> components;
  if (!flatten(peel(id, lookup), 0, lookup, 0, components)) return {};
  return components;
}

Location go_pieces(const std::vector<GoComponent>& components, const std::vector<uint32_t>& registers,
                   uint64_t size) {
  Location location;
  uint64_t at = 0;
  auto pad_to = [&](uint64_t offset) {
    if (offset <= at) return;
    location.pieces.push_back({.kind = LocPiece::Kind::Bytes,
                               .bytes = std::vector<uint8_t>(offset - at),
                               .bit_size = (offset - at) * 8});
  };
  for (size_t i = 0; i < components.size() && i < registers.size(); i++) {
    pad_to(components[i].offset);
    location.pieces.push_back({.kind = LocPiece::Kind::Register,
                               .ops = {{LocOp::Code::Register, registers[i], 0}},
                               .bit_size = components[i].size * 8});
    at = components[i].offset + components[i].size;
  }
  pad_to(size);
  if (location.pieces.size() == 1) location.pieces[0].bit_size = 0;
  return location;
}

std::optional<GoCall> go_call(const std::vector<TypeId>& parameters, const std::vector<TypeId>& results,
                              bool in_registers, const TypeLookup& lookup) {
  GoCall call;
  Assigner assigner(in_registers, lookup);
  for (TypeId id : parameters) {
    auto place = assigner.assign(id);
    if (!place) return {};
    call.parameters.push_back(std::move(*place));
  }
  assigner.reset_registers();
  assigner.align_stack();
  for (TypeId id : results) {
    auto place = assigner.assign(id);
    if (!place) return {};
    call.results.push_back(std::move(*place));
  }
  return call;
}

}  // namespace uscope::image
