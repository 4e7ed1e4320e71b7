// Network and hardware addresses: ntop(), pton(), macaddr().
#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

constexpr uint64_t kFamilyOffset = 0, kAddressOffset = 8;  // in an Inet, see event/layout.h
constexpr uint64_t kMacSize = 6;

// The bytes that the value itself has, a string's NUL apart.
uint64_t byte_count(const lang::Type& type) {
  if (type.is(TypeKind::kString)) return user_size(type);
  return type.size();
}

}  // namespace

// The first `size` bytes of an array, a string or a buffer, or of what a pointer points to.
void CodeGenerator::store_bytes(const Expr& expr, uint64_t size, Place to) {
  if (expr.type.is(TypeKind::kPointer)) {
    bool is_kernel = expr.type.address_space() == lang::AddressSpace::kKernel;
    scalar(expr);
    reading_ = expr.span;
    return read_outside(outside(is_kernel, 0), to, size);
  }
  // A call makes its value in our memory, a literal is there.
  bool is_made = expr.as<lang::Call>() || expr.as<lang::StringLiteral>();
  Located located = is_made ? ours(place_of(expr)) : locate(expr);
  reading_ = expr.span;
  if (located.is_outside) return read_outside(located, to, size);
  uint64_t skip = expr.type.is(TypeKind::kBuffer) ? 4 : 0;  // its length
  copy(to, located.place.at(located.offset + skip), size);
}

void CodeGenerator::store_ntop(const Expr& expr, const lang::Call& node, Place to) {
  const Expr& value = *node.arguments.back();
  clear(to, size_of(expr.type));
  if (value.type.is_integer()) {
    scalar(value);
    asm_.store(Width::B4, to.base, to.offset + int32_t(kAddressOffset), R0);
  } else {
    uint64_t size = value.type.is(TypeKind::kPointer) ? 16 : byte_count(value.type);
    if (size != 4 && size != 16) return unsupported(expr.span, "ntop() of " + value.type.spell());
    store_bytes(value, size, to.at(kAddressOffset));
  }
  if (node.arguments.size() == 2) {
    scalar(*node.arguments[0]);
    return asm_.store(Width::B8, to.base, to.offset + int32_t(kFamilyOffset), R0);
  }
  bool is_v6 = !value.type.is_integer() && byte_count(value.type) == 16;
  asm_.store(Width::B8, to.base, to.offset + int32_t(kFamilyOffset), is_v6 ? AF_INET6 : AF_INET);
}

void CodeGenerator::store_macaddr(const Expr& expr, const lang::Call& node, Place to) {
  const Expr& value = *node.arguments[0];
  if (!value.type.is(TypeKind::kPointer) && byte_count(value.type) < kMacSize)
    return unsupported(expr.span, "macaddr() of " + value.type.spell());
  store_bytes(value, kMacSize, to);
}

void CodeGenerator::store_pton(const Expr& expr, const lang::Call& node, Place to) {
  const std::string& text = node.arguments[0]->as<lang::StringLiteral>()->value;
  bool is_v6 = expr.type.count() == 16;
  std::array<uint8_t, 16> bytes{};
  if (::inet_pton(is_v6 ? AF_INET6 : AF_INET, text.c_str(), bytes.data()) != 1) {
    return unit_.problem(
        expr.span, fmt::format("pton() expects an string argument of an IPv4/IPv6 address, got {}", text));
  }
  for (uint64_t i = 0; i < expr.type.count(); i++)
    asm_.store(Width::B1, to.base, to.offset + int32_t(i), int32_t(bytes[i]));
}

}  // namespace uscope::codegen
