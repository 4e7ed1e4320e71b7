#include "image/abi_sysv.h"

#include <algorithm>
#include <array>

namespace uscope::image {
namespace {

using Kind = Type::Kind;
constexpr int max_depth = 16;
// Unions inside each other may have any number of members in little room.
constexpr size_t max_steps = 100'000;
constexpr uint32_t rax = 0, rdx = 1, rcx = 2, rsi = 4, rdi = 5, rsp = 7, r8 = 8, r9 = 9, xmm0 = 17;
constexpr std::array<uint32_t, 6> integer_registers = {rdi, rsi, rdx, rcx, r8, r9};
constexpr size_t vector_registers = 8;
constexpr uint64_t widest_vector = 64;

enum class Class { None, Integer, Sse, SseUp, X87, X87Up, Memory, Unknown };

Class merge(Class a, Class b) {
  if (a == b) return a;
  if (a == Class::None) return b;
  if (b == Class::None) return a;
  for (Class stronger : {Class::Unknown, Class::Memory, Class::Integer}) {
    if (a == stronger || b == stronger) return stronger;
  }
  for (Class x87 : {Class::X87, Class::X87Up}) {
    if (a == x87 || b == x87) return Class::Memory;
  }
  return Class::Sse;
}

struct Classified {
  std::array<Class, 2> eightbytes = {Class::None, Class::None};
  uint64_t size = 0;
  uint64_t alignment = 1;
  bool by_reference = false;

  bool is(Class wanted) const { return eightbytes[0] == wanted || eightbytes[1] == wanted; }
};

class Classifier {
 public:
  Classifier(const TypeLookup& lookup, Compiler compiler) : lookup_(lookup), compiler_(compiler) {}

  Classified classify(TypeId id) {
    result_ = {};
    steps_ = 0;
    const Type& type = peel(id);
    result_.size = type.kind == Kind::Unspecified ? 8 : type.size;
    result_.alignment = alignment_of(type, 0);
    if (steps_ > max_steps) {
      add(0, Class::Unknown);
      return result_;
    }
    if (is_class(type)) {
      if (type.is_declaration || !type.passed_by_reference) {
        add(0, Class::Unknown);
        return result_;
      }
      if (*type.passed_by_reference) {
        result_.by_reference = true;
        return result_;
      }
    }
    bool is_scalar16 = type.kind == Kind::Float || type.kind == Kind::Integer;
    // By itself: over the stack as a parameter, in two registers of the x87 as a result.
    const bool is_long_double = type.name.find("128") == std::string::npos;
    if (type.kind == Kind::Complex && result_.size == 32 && is_long_double) {
      result_.eightbytes = {Class::X87, Class::X87Up};
      return result_;
    }
    if (result_.size > 16 && !is_scalar16 && !type.is_vector) {
      // Around one wide vector it is in the same register, if the processor that was compiled for has such.
      const bool may_be_vector = result_.size <= widest_vector && holds_wide_vector(type, 0);
      add(0, may_be_vector ? Class::Unknown : Class::Memory);
      return result_;
    }
    visit(type, 0, 0);
    clean_up();
    return result_;
  }

 private:
  static bool is_class(const Type& type) {
    return type.kind == Kind::Struct || type.kind == Kind::Class || type.kind == Kind::Union;
  }

  // An eightbyte that continues what the one before it does not begin is none of that kind.
  void clean_up() {
    auto& [first, second] = result_.eightbytes;
    if (second == Class::X87Up && first != Class::X87) second = Class::Memory;
    if (first == Class::SseUp) first = Class::Sse;
    if (second == Class::SseUp && first != Class::Sse) second = Class::Sse;
    for (Class whole : {Class::Unknown, Class::Memory}) {
      if (!result_.is(whole)) continue;
      result_.eightbytes = {whole, whole};
      return;
    }
  }

  const Type& peel(TypeId id) { return strip_aliases(lookup_(id), lookup_); }

  uint64_t alignment_of(const Type& type, int depth) {
    uint64_t natural = 1;
    if (depth > max_depth || ++steps_ > max_steps) return 1;
    if (is_class(type)) {
      for (const Member& member : type.members) {
        if (!member.is_static) natural = std::max(natural, alignment_of(peel(member.type), depth + 1));
      }
    } else if (type.kind == Kind::Array && !type.is_vector) {
      natural = alignment_of(peel(type.target), depth + 1);
    } else if (type.kind == Kind::Complex) {
      natural = type.size / 2;
    } else if (type.kind == Kind::MemberPointer) {
      natural = 8;
    } else {
      natural = type.size == 0 ? 1 : std::min<uint64_t>(type.size, 64);
    }
    return std::max(natural, type.alignment);
  }

  bool holds_wide_vector(const Type& type, int depth) {
    if (depth > max_depth || ++steps_ > max_steps) return true;
    if (type.kind == Kind::Array)
      return type.is_vector ? type.size > 16 : holds_wide_vector(peel(type.target), depth + 1);
    return is_class(type) && std::ranges::any_of(type.members, [&](const Member& member) {
             return !member.is_static && holds_wide_vector(peel(member.type), depth + 1);
           });
  }

  void add(uint64_t offset, Class what) {
    if (offset >= 16) what = Class::Memory;
    Class& slot = result_.eightbytes[std::min<uint64_t>(offset / 8, 1)];
    slot = merge(slot, what);
  }

  void visit(const Type& type, uint64_t offset, int depth) {
    if (depth > max_depth || ++steps_ > max_steps) return add(0, Class::Unknown);
    switch (type.kind) {
      case Kind::Bool:
      case Kind::Integer:
      case Kind::Character:
      case Kind::Enum:
        return visit_integer(type, offset);
      case Kind::Pointer:
      case Kind::Reference:
      case Kind::RvalueReference:
        return add(offset, offset % 8 == 0 ? Class::Integer : Class::Memory);
      case Kind::MemberPointer:
        add(offset, offset % 8 == 0 ? Class::Integer : Class::Memory);
        if (type.size == 16) add(offset + 8, Class::Integer);
        return;
      case Kind::Float:
        return visit_float(type, offset);
      case Kind::Complex:
        return visit_complex(type, offset);
      case Kind::Struct:
      case Kind::Class:
      case Kind::Union:
        return visit_members(type, offset, depth);
      case Kind::Array:
        return visit_array(type, offset, depth);
      case Kind::Unspecified:
        return add(offset, type.name.find("nullptr") != std::string::npos ? Class::Integer : Class::Unknown);
      default:
        return add(0, Class::Unknown);
    }
  }

  void visit_integer(const Type& type, uint64_t offset) {
    if (type.size == 0 || type.size > 16) return add(0, Class::Unknown);
    if (offset % std::min<uint64_t>(type.size, 16) != 0) return add(0, Class::Memory);
    add(offset, Class::Integer);
    if (type.size > 8) add(offset + 8, Class::Integer);
  }

  void visit_float(const Type& type, uint64_t offset) {
    if (type.size <= 8 && type.size > 0) {
      return add(offset % type.size == 0 ? offset : 0, offset % type.size == 0 ? Class::Sse : Class::Memory);
    }
    if (type.size != 16) return add(0, Class::Unknown);
    if (offset != 0) return add(0, Class::Memory);
    // Both are 16 bytes: x87's 80-bit format goes over the stack, the 128-bit format in one register.
    if (type.name.find("long double") != std::string::npos) {
      add(0, Class::X87);
      return add(8, Class::X87Up);
    }
    add(0, Class::Sse);
    add(8, Class::SseUp);
  }

  void visit_complex(const Type& type, uint64_t offset) {
    uint64_t part = type.size / 2;
    if (type.size > 16 || part == 0) return add(0, part == 0 ? Class::Unknown : Class::Memory);
    if (offset % part != 0) return add(0, Class::Memory);
    add(offset, Class::Sse);
    add(offset + part, Class::Sse);
  }

  void visit_members(const Type& type, uint64_t offset, int depth) {
    if (!type.variant_parts.empty()) return add(0, Class::Unknown);
    for (const Member& member : type.members) {
      if (member.is_static) continue;
      if (member.is_virtual_base) return add(0, Class::Unknown);
      if (member.bit_size != 0) {
        uint64_t first = offset * 8 + member.bit_offset;
        add(first / 8, Class::Integer);
        add((first + member.bit_size - 1) / 8, Class::Integer);
        continue;
      }
      const Type& inner = peel(member.type);
      if (is_class(inner) && inner.is_declaration) return add(0, Class::Unknown);
      visit(inner, offset + member.offset, depth + 1);
    }
  }

  // The convention does not speak of arrays without a bound: gcc passes what stands before them.
  void visit_flexible() {
    if (compiler_ == Compiler::Llvm) add(0, Class::Memory);
    if (compiler_ == Compiler::Unknown) add(0, Class::Unknown);
  }

  void visit_array(const Type& type, uint64_t offset, int depth) {
    if (type.is_vector) {
      if (type.size != 8 && type.size != 16) return add(0, Class::Unknown);
      if (offset % type.size != 0) return add(0, Class::Memory);
      add(offset, Class::Sse);
      if (type.size == 16) add(offset + 8, Class::SseUp);
      return;
    }
    const Type& element = peel(type.target);
    uint64_t count = 1;
    for (auto dimension : type.dimensions) {
      if (!dimension) return visit_flexible();
      if (*dimension == 0) return;  // takes no room
      if (__builtin_mul_overflow(count, *dimension, &count)) return add(0, Class::Unknown);
    }
    if (element.size == 0 || count > 16) return add(0, element.size == 0 ? Class::Unknown : Class::Memory);
    for (uint64_t i = 0; i < count; i++) visit(element, offset + i * element.size, depth + 1);
  }

  const TypeLookup& lookup_;
  Compiler compiler_;
  Classified result_;
  size_t steps_ = 0;
};

LocPiece register_piece(uint32_t number, uint64_t bytes) {
  return {
      .kind = LocPiece::Kind::Register, .ops = {{LocOp::Code::Register, number, 0}}, .bit_size = bytes * 8};
}

LocPiece memory_piece(uint32_t base, int64_t offset) {
  LocPiece piece{.kind = LocPiece::Kind::Memory, .ops = {{LocOp::Code::Register, base, 0}}};
  if (offset != 0) piece.ops.push_back({LocOp::Code::AddConst, 0, offset});
  return piece;
}

// Registers for the eightbytes of a value, taken from the two sequences in order.
template <typename NextInteger, typename NextVector>
Location in_registers(const Classified& what, NextInteger&& next_integer, NextVector&& next_vector) {
  Location location;
  for (size_t i = 0; i < 2; i++) {
    uint64_t bytes = std::min<uint64_t>(8, what.size - std::min<uint64_t>(what.size, i * 8));
    if (bytes == 0) break;
    switch (what.eightbytes[i]) {
      case Class::Integer:
        location.pieces.push_back(register_piece(next_integer(), bytes));
        break;
      case Class::Sse:
        location.pieces.push_back(register_piece(next_vector(), bytes));
        break;
      case Class::SseUp:
        location.pieces.back().bit_size += bytes * 8;
        break;
      default:  // an eightbyte that holds only padding
        location.pieces.push_back(
            {.kind = LocPiece::Kind::Bytes, .bytes = std::vector<uint8_t>(bytes), .bit_size = bytes * 8});
    }
  }
  if (location.pieces.size() == 1) location.pieces[0].bit_size = 0;
  return location;
}

bool is_wide_integer(TypeId id, const TypeLookup& lookup) {
  const Type& type = strip_aliases(lookup(id), lookup);
  return type.kind == Kind::Integer && type.size == 16;
}

}  // namespace

Compiler compiler_of(std::string_view producer) {
  if (producer.starts_with("GNU ")) return Compiler::Gcc;
  return producer.find("clang") != std::string_view::npos ? Compiler::Llvm : Compiler::Unknown;
}

std::vector<std::optional<Location>> sysv_parameters(const std::vector<TypeId>& parameters, TypeId result,
                                                     const TypeLookup& lookup, Compiler compiler) {
  std::vector<std::optional<Location>> places(parameters.size());
  Classifier classifier(lookup, compiler);
  size_t integers = 0, vectors = 0;
  uint64_t stack = 8;  // above the return address
  if (result) {
    Classified returned = classifier.classify(result);
    if (returned.is(Class::Unknown)) return places;
    if (returned.by_reference || returned.is(Class::Memory)) integers++;
  }
  for (size_t i = 0; i < parameters.size(); i++) {
    Classified what = classifier.classify(parameters[i]);
    if (what.is(Class::Unknown)) return places;
    if (what.by_reference) {
      Location location;
      if (integers < integer_registers.size()) {
        location.pieces.push_back(memory_piece(integer_registers[integers++], 0));
      } else {
        LocPiece piece = memory_piece(rsp, int64_t(stack));
        piece.ops.push_back({LocOp::Code::Deref, 8, 0});
        location.pieces.push_back(std::move(piece));
        stack += 8;
      }
      places[i] = std::move(location);
      continue;
    }
    bool is_empty = what.eightbytes[0] == Class::None && what.eightbytes[1] == Class::None;
    if (is_empty) {
      LocPiece nothing{.kind = LocPiece::Kind::OptimizedOut,
                       .reason = "an empty object, which is not passed"};
      places[i] = Location{{std::move(nothing)}};
      continue;
    }
    auto count = [&](Class wanted) {
      return size_t(std::count(what.eightbytes.begin(), what.eightbytes.end(), wanted));
    };
    bool in_memory = what.is(Class::Memory) || what.is(Class::X87);
    bool fits = integers + count(Class::Integer) <= integer_registers.size() &&
                vectors + count(Class::Sse) <= vector_registers;
    // LLVM before 18 splits a number of 16 bytes between the last register and the stack.
    const bool may_be_split = compiler == Compiler::Llvm && !fits && is_wide_integer(parameters[i], lookup) &&
                              integers + 1 == integer_registers.size();
    if (may_be_split) return places;
    if (!in_memory && fits) {
      places[i] = in_registers(
          what, [&] { return integer_registers[integers++]; }, [&] { return xmm0 + uint32_t(vectors++); });
    } else {
      uint64_t alignment = std::max<uint64_t>(8, what.alignment);
      // Counted from the caller's aligned stack pointer, which is right above the return address.
      stack = 8 + (stack - 8 + alignment - 1) / alignment * alignment;
      places[i] = Location{{memory_piece(rsp, int64_t(stack))}};
      stack += (what.size + 7) / 8 * 8;
    }
  }
  return places;
}

std::optional<Location> sysv_result(TypeId result, const TypeLookup& lookup, Compiler compiler) {
  if (!result) return Location{};
  Classified what = Classifier(lookup, compiler).classify(result);
  if (what.is(Class::Unknown) || what.is(Class::X87)) return {};
  if (what.by_reference || what.is(Class::Memory)) return Location{{memory_piece(rax, 0)}};
  uint32_t integers = 0, vectors = 0;
  return in_registers(
      what, [&] { return integers++ == 0 ? rax : rdx; }, [&] { return xmm0 + vectors++; });
}

}  // namespace uscope::image
