#include "image/abi_rust.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace uscope::image {
namespace {

using Kind = Type::Kind;
constexpr int max_depth = 16;
constexpr size_t max_scalars = 16;
constexpr uint32_t rax = 0, rdx = 1, xmm0 = 17;
constexpr std::array<uint32_t, 6> integer_registers = {5, 4, 1, 2, 8, 9};  // rdi, rsi, rdx, rcx, r8, r9
constexpr size_t vector_registers = 8;

struct Scalar {
  uint64_t offset = 0, size = 0;
  bool is_float = false;
};

bool is_scalar_kind(Kind kind) {
  switch (kind) {
    case Kind::Bool:
    case Kind::Integer:
    case Kind::Character:
    case Kind::Enum:
    case Kind::Pointer:
    case Kind::Reference:
    case Kind::Float:
      return true;
    default:
      return false;
  }
}

// Whether a struct of these, from the first one on, is laid out as its scalars alone would be. What is packed
// or aligned further is returned in memory, or in other registers.
bool is_natural(const Type& type, uint64_t offset, const std::vector<Scalar>& scalars, size_t first) {
  uint64_t alignment = 1, end = offset;
  for (size_t i = first; i < scalars.size(); i++) {
    // Numbers of 16 bytes are aligned to 8 before Rust 1.77.
    const uint64_t own = scalars[i].size == 16 && type.alignment == 8 ? 8 : scalars[i].size;
    if (!std::has_single_bit(own) || (scalars[i].offset - offset) % own != 0) return false;
    alignment = std::max(alignment, own);
    end = std::max(end, scalars[i].offset + scalars[i].size);
  }
  const uint64_t size = (end - offset + alignment - 1) / alignment * alignment;
  return type.alignment == alignment && type.size == size;
}

// False for what is not simply made of scalars: enums with data, unions, arrays.
bool flatten(const Type& type, uint64_t offset, const TypeLookup& lookup, int depth,
             std::vector<Scalar>& out) {
  if (depth > max_depth || out.size() > max_scalars) return false;
  if (is_scalar_kind(type.kind)) {
    bool is_float = type.kind == Kind::Float;
    if (type.size == 0 || type.size > (is_float ? 8 : 16)) return false;
    out.push_back({offset, type.size, is_float});
    return true;
  }
  if (type.kind != Kind::Struct || type.is_declaration || !type.variant_parts.empty()) return false;
  const size_t first = out.size();
  for (const Member& member : type.members) {
    const Type& inner = strip_aliases(lookup(member.type), lookup);
    if (member.is_static || inner.size == 0) continue;
    // A broken file may have members anywhere.
    if (member.offset > type.size || inner.size > type.size - member.offset) return false;
    if (member.bit_size != 0 || !flatten(inner, offset + member.offset, lookup, depth + 1, out)) return false;
  }
  return is_natural(type, offset, out, first);
}

// Some versions return vectors of these in registers, and debug info has them as structs like any other.
bool may_be_vector(const Type& type) {
  bool is_vector_size = type.size == 16 || type.size == 32 || type.size == 64;
  return is_vector_size && (type.alignment == 0 || type.alignment == type.size);
}

LocPiece in_register(uint32_t number, uint64_t bytes) {
  return {
      .kind = LocPiece::Kind::Register, .ops = {{LocOp::Code::Register, number, 0}}, .bit_size = bytes * 8};
}

LocPiece padding(uint64_t bytes) {
  return {.kind = LocPiece::Kind::Bytes, .bytes = std::vector<uint8_t>(bytes), .bit_size = bytes * 8};
}

// Each in a register of its own kind, in order: what both conventions do where no two share an eightbyte.
Location one_register_each(const std::vector<Scalar>& scalars, uint64_t size) {
  Location location;
  uint32_t integers = 0, floats = 0;
  uint64_t at = 0;
  for (const Scalar& scalar : scalars) {
    if (scalar.offset > at) location.pieces.push_back(padding(scalar.offset - at));
    uint32_t number = scalar.is_float ? xmm0 + floats++ : (integers++ == 0 ? rax : rdx);
    location.pieces.push_back(in_register(number, scalar.size));
    at = scalar.offset + scalar.size;
  }
  if (size > at) location.pieces.push_back(padding(size - at));
  if (location.pieces.size() == 1) location.pieces[0].bit_size = 0;
  return location;
}

}  // namespace

std::optional<Location> rust_result(TypeId id, const TypeLookup& lookup) {
  if (!id) return Location{};
  const Type& type = strip_aliases(lookup(id), lookup);
  if (type.kind == Kind::Void) return Location{};
  bool is_aggregate =
      type.kind == Kind::Struct || type.kind == Kind::Union || (type.kind == Kind::Array && !type.is_vector);
  if (is_aggregate && !type.is_declaration && type.size > 16) {
    if (may_be_vector(type)) return {};
    return Location{{{.kind = LocPiece::Kind::Memory, .ops = {{LocOp::Code::Register, rax, 0}}}}};
  }
  std::vector<Scalar> scalars;
  if (!flatten(type, 0, lookup, 0, scalars)) return {};
  std::ranges::sort(scalars, {}, &Scalar::offset);
  if (scalars.empty()) return type.size == 0 ? std::optional(Location{}) : std::nullopt;
  bool is_wide = scalars.size() == 1 && scalars[0].size == 16;
  if (is_wide) return Location{{in_register(rax, 8), in_register(rdx, 8)}};
  bool is_pair = scalars.size() == 2 && scalars[0].offset + scalars[0].size <= 8 && scalars[1].offset >= 8;
  if (scalars.size() == 1 ? scalars[0].offset == 0 : is_pair) return one_register_each(scalars, type.size);
  // Several in one word that are not floating-point numbers only: the word is an integer to both.
  bool has_integer = std::ranges::any_of(scalars, [](const Scalar& s) { return !s.is_float; });
  if (scalars.size() > 2 && type.size <= 8 && has_integer) {
    LocPiece word = in_register(rax, type.size);
    word.bit_size = 0;
    return Location{{std::move(word)}};
  }
  return {};
}

std::vector<std::optional<Location>> rust_parameters(const std::vector<TypeId>& parameters, TypeId result,
                                                     const TypeLookup& lookup) {
  std::vector<std::optional<Location>> places(parameters.size());
  auto returned = rust_result(result, lookup);
  if (!returned) return places;
  size_t integers = returned->as_memory_at_register() ? 1 : 0, floats = 0;
  for (size_t i = 0; i < parameters.size(); i++) {
    const Type& type = strip_aliases(lookup(parameters[i]), lookup);
    if (!is_scalar_kind(type.kind) || type.size == 0 || type.size > 8) return places;
    const bool is_float = type.kind == Kind::Float;
    if (is_float ? floats == vector_registers : integers == integer_registers.size()) return places;
    LocPiece piece = in_register(is_float ? xmm0 + uint32_t(floats++) : integer_registers[integers++], 0);
    places[i] = Location{{std::move(piece)}};
  }
  return places;
}

}  // namespace uscope::image
