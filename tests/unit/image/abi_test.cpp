#include <gtest/gtest.h>

#include <map>

#include "image/abi_go.h"
#include "image/abi_rust.h"
#include "image/abi_sysv.h"
#include "unit/image/dwarf/compiled.h"

namespace uscope::image {
namespace {

using Kind = Type::Kind;
using dwarf::testing::spell;

// Types made by hand: ids are given in order.
class Types {
 public:
  TypeId add(Type type) {
    TypeId id{types_.size() + 1};
    types_[id.value] = std::move(type);
    return id;
  }
  TypeId scalar(Kind kind, uint64_t size) { return add({.kind = kind, .name = "t", .size = size}); }
  TypeId structure(std::vector<std::pair<TypeId, uint64_t>> members, uint64_t size) {
    Type type{.kind = Kind::Struct, .size = size, .passed_by_reference = false};
    for (auto [id, offset] : members) type.members.push_back({.name = "m", .type = id, .offset = offset});
    return add(std::move(type));
  }
  TypeLookup lookup() {
    return [this](TypeId id) -> const Type& { return types_[id.value]; };
  }

 private:
  std::map<uint64_t, Type> types_;
};

std::vector<std::string> spelled(const std::vector<std::optional<Location>>& places) {
  std::vector<std::string> text;
  for (const auto& place : places) text.push_back(place ? spell(*place) : "unknown");
  return text;
}
using Texts = std::vector<std::string>;

TEST(SysvAbi, hands_out_integer_and_vector_registers_apart) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), d = t.scalar(Kind::Float, 8);
  EXPECT_EQ(spelled(sysv_parameters({i, d, i, d, i, i, i, i, i}, {}, t.lookup())),
            (Texts{"rdi", "xmm0", "rsi", "xmm1", "rdx", "rcx", "r8", "r9", "[rsp+8]"}));
}

TEST(SysvAbi, knows_what_compilers_make_of_arrays_without_a_bound) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), c = t.scalar(Kind::Character, 1);
  TypeId rest = t.add({.kind = Kind::Array, .target = c, .dimensions = {std::nullopt}});
  TypeId flexible = t.structure({{i, 0}, {rest, 4}}, 4);
  EXPECT_EQ(spell(*sysv_result(flexible, t.lookup(), Compiler::Gcc)), "rax");
  EXPECT_EQ(spell(*sysv_result(flexible, t.lookup(), Compiler::Llvm)), "[rax]");
  EXPECT_FALSE(sysv_result(flexible, t.lookup(), Compiler::Unknown));
  EXPECT_EQ(spelled(sysv_parameters({flexible, i}, {}, t.lookup(), Compiler::Gcc)), (Texts{"rdi", "rsi"}));
  EXPECT_EQ(spelled(sysv_parameters({flexible, i}, {}, t.lookup(), Compiler::Llvm)),
            (Texts{"[rsp+8]", "rdi"}));
  EXPECT_EQ(spelled(sysv_parameters({flexible, i}, {}, t.lookup(), Compiler::Unknown)),
            (Texts{"unknown", "unknown"}));
}

TEST(SysvAbi, splits_small_structs_by_eightbytes) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), l = t.scalar(Kind::Integer, 8), f = t.scalar(Kind::Float, 4),
         d = t.scalar(Kind::Float, 8);
  EXPECT_EQ(spelled(sysv_parameters({t.structure({{i, 0}, {d, 8}}, 16)}, {}, t.lookup())),
            (Texts{"64:rdi 64:xmm0"}));
  EXPECT_EQ(spelled(sysv_parameters({t.structure({{f, 0}, {i, 4}}, 8)}, {}, t.lookup())), (Texts{"rdi"}));
  EXPECT_EQ(spelled(sysv_parameters({t.structure({{f, 0}, {f, 4}, {f, 8}}, 12)}, {}, t.lookup())),
            (Texts{"64:xmm0 32:xmm1"}));
  EXPECT_EQ(spelled(sysv_parameters({t.structure({{l, 0}, {l, 8}, {l, 16}}, 24), i}, {}, t.lookup())),
            (Texts{"[rsp+8]", "rdi"}));
  // Misaligned members put the whole into memory.
  EXPECT_EQ(spelled(sysv_parameters({t.structure({{i, 0}, {l, 4}}, 12)}, {}, t.lookup())),
            (Texts{"[rsp+8]"}));
  // A struct that does not fit goes to the stack whole; what follows may still take the register.
  TypeId two = t.structure({{l, 0}, {l, 8}}, 16);
  EXPECT_EQ(spelled(sysv_parameters({i, i, i, i, i, two, i}, {}, t.lookup())),
            (Texts{"rdi", "rsi", "rdx", "rcx", "r8", "[rsp+8]", "r9"}));
}

TEST(SysvAbi, gives_up_on_what_has_too_many_parts) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), inner = i;
  for (int level = 0; level < 15; level++)
    inner = t.structure(std::vector<std::pair<TypeId, uint64_t>>(8, {inner, 0}), 4);
  EXPECT_EQ(spelled(sysv_parameters({i, inner, i}, {}, t.lookup())), (Texts{"rdi", "unknown", "unknown"}));
}

TEST(SysvAbi, passes_large_results_and_difficult_classes_by_hidden_pointers) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), l = t.scalar(Kind::Integer, 8);
  TypeId large = t.structure({{l, 0}, {l, 8}, {l, 16}}, 24);
  EXPECT_EQ(spelled(sysv_parameters({i}, large, t.lookup())), (Texts{"rsi"}));
  Type text{.kind = Kind::Class, .size = 32, .passed_by_reference = true};
  TypeId item = t.add(text);
  EXPECT_EQ(spelled(sysv_parameters({i, item, i}, {}, t.lookup())), (Texts{"rdi", "[rsi]", "rdx"}));
  EXPECT_EQ(spelled(sysv_parameters({item, i, i, i, i, i, item}, {}, t.lookup())).back(), "[rsp+8 deref8]");
  text.passed_by_reference.reset();
  EXPECT_EQ(spelled(sysv_parameters({i, t.add(text), i}, {}, t.lookup())),
            (Texts{"rdi", "unknown", "unknown"}));
}

TEST(SysvAbi, aligns_what_goes_over_the_stack) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4);
  TypeId ld = t.add({.kind = Kind::Float, .name = "long double", .size = 16});
  TypeId w = t.scalar(Kind::Integer, 16);
  EXPECT_EQ(spelled(sysv_parameters({i, i, i, i, i, i, i, ld, w}, {}, t.lookup())),
            (Texts{"rdi", "rsi", "rdx", "rcx", "r8", "r9", "[rsp+8]", "[rsp+24]", "[rsp+40]"}));
}

TEST(SysvAbi, says_where_results_are) {
  Types t;
  TypeId l = t.scalar(Kind::Integer, 8), d = t.scalar(Kind::Float, 8);
  EXPECT_EQ(spell(*sysv_result(l, t.lookup())), "rax");
  EXPECT_EQ(spell(*sysv_result(t.structure({{d, 0}, {l, 8}}, 16), t.lookup())), "64:xmm0 64:rax");
  EXPECT_EQ(spell(*sysv_result(t.structure({{l, 0}, {l, 8}, {l, 16}}, 24), t.lookup())), "[rax]");
  EXPECT_TRUE(sysv_result({}, t.lookup())->pieces.empty());
}

// In a register of 32 or 64 bytes, if the processor that was compiled for has such; else in memory.
TEST(SysvAbi, does_not_tell_where_wide_vectors_are) {
  Types t;
  TypeId l = t.scalar(Kind::Integer, 8);
  auto vector = [&](uint64_t size) {
    return t.add(
        {.kind = Kind::Array, .size = size, .target = l, .dimensions = {size / 8}, .is_vector = true});
  };
  auto array = [&](TypeId of, uint64_t count, uint64_t size) {
    return t.add({.kind = Kind::Array, .size = size, .target = of, .dimensions = {count}});
  };
  for (TypeId wide : {vector(32), t.structure({{vector(32), 0}}, 32), t.structure({{vector(64), 0}}, 64),
                      t.structure({{t.structure({{array(vector(32), 1, 32), 0}}, 32), 0}}, 32),
                      t.add({.kind = Kind::Union,
                      .size = 32,
                      .members = {{.name = "v", .type = vector(32)}, {.name = "l", .type = l}},
                      .passed_by_reference = false})}) {
    EXPECT_FALSE(sysv_result(wide, t.lookup()));
    EXPECT_EQ(spelled(sysv_parameters({l}, wide, t.lookup())), Texts{"unknown"});
    EXPECT_EQ(spelled(sysv_parameters({l, wide, l}, {}, t.lookup())), (Texts{"rdi", "unknown", "unknown"}));
  }
  // Larger than any register, or of vectors that are not wide: in memory.
  for (TypeId large : {t.structure({{vector(64), 0}, {vector(64), 64}}, 128),
                       t.structure({{vector(16), 0}, {vector(16), 16}}, 32)}) {
    EXPECT_EQ(spell(*sysv_result(large, t.lookup())), "[rax]");
    EXPECT_EQ(spelled(sysv_parameters({l}, large, t.lookup())), Texts{"rsi"});
  }
}

TEST(SysvAbi, a_complex_number_of_128_bit_parts_is_in_memory) {
  Types t;
  TypeId l = t.scalar(Kind::Integer, 8);
  TypeId by_x87 = t.add({.kind = Kind::Complex, .name = "complex long double", .size = 32});
  TypeId wide = t.add({.kind = Kind::Complex, .name = "complex _Float128", .size = 32});
  EXPECT_EQ(spelled(sysv_parameters({l}, by_x87, t.lookup())), Texts{"rdi"});
  EXPECT_EQ(spelled(sysv_parameters({l}, wide, t.lookup())), Texts{"rsi"});
  EXPECT_EQ(spell(*sysv_result(wide, t.lookup())), "[rax]");
}

TEST(SysvAbi, an_eightbyte_is_what_its_strongest_part_makes_it) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), f = t.scalar(Kind::Float, 4), d = t.scalar(Kind::Float, 8);
  TypeId c = t.scalar(Kind::Integer, 1), p = t.scalar(Kind::Pointer, 8);
  auto result = [&](TypeId id) {
    auto place = sysv_result(id, t.lookup());
    return place ? spell(*place) : "unknown";
  };
  EXPECT_EQ(result(t.structure({{d, 0}, {d, 8}}, 16)), "64:xmm0 64:xmm1");
  EXPECT_EQ(result(t.structure({{f, 0}, {f, 4}, {f, 8}}, 12)), "64:xmm0 32:xmm1");
  EXPECT_EQ(result(t.structure({{f, 0}, {i, 4}, {f, 8}}, 12)), "64:rax 32:xmm0");
  // A pointer that does not lie where pointers lie puts the whole into memory.
  EXPECT_EQ(result(t.structure({{c, 0}, {p, 1}}, 9)), "[rax]");
  TypeId complex = t.scalar(Kind::Complex, 16), small_complex = t.scalar(Kind::Complex, 8);
  EXPECT_EQ(result(complex), "64:xmm0 64:xmm1");
  EXPECT_EQ(result(small_complex), "xmm0");
}

TEST(SysvAbi, what_the_x87_returns_is_not_there_and_takes_no_hidden_pointer) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4);
  TypeId ld = t.add({.kind = Kind::Float, .name = "long double", .size = 16});
  TypeId complex = t.scalar(Kind::Complex, 32);
  EXPECT_FALSE(sysv_result(ld, t.lookup()));
  EXPECT_FALSE(sysv_result(complex, t.lookup()));
  EXPECT_EQ(spelled(sysv_parameters({i}, complex, t.lookup())), (Texts{"rdi"}));
  EXPECT_EQ(spelled(sysv_parameters({complex, i}, {}, t.lookup())), (Texts{"[rsp+8]", "rdi"}));
  // Beside an integer in the same bytes nothing of it is the x87's any more.
  Type both{.kind = Kind::Union, .size = 16, .passed_by_reference = false};
  both.members = {{.name = "a", .type = ld}, {.name = "b", .type = i}};
  TypeId mixed = t.add(both);
  EXPECT_EQ(spell(*sysv_result(mixed, t.lookup())), "[rax]");
  EXPECT_EQ(spelled(sysv_parameters({i}, mixed, t.lookup())), (Texts{"rsi"}));
}

TEST(SysvAbi, half_a_vector_is_no_vector) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4);
  TypeId f = t.scalar(Kind::Float, 4);
  TypeId v = t.add({.kind = Kind::Array, .size = 16, .target = f, .dimensions = {4}, .is_vector = true});
  EXPECT_EQ(spelled(sysv_parameters({v, v}, {}, t.lookup())), (Texts{"xmm0", "xmm1"}));
  Type both{.kind = Kind::Union, .size = 16, .passed_by_reference = false};
  both.members = {{.name = "a", .type = v}, {.name = "b", .type = i}};
  EXPECT_EQ(spelled(sysv_parameters({t.add(both)}, {}, t.lookup())), (Texts{"64:rdi 64:xmm0"}));
}

TEST(SysvAbi, does_not_tell_what_versions_of_a_compiler_split) {
  Types t;
  TypeId l = t.scalar(Kind::Integer, 8), w = t.scalar(Kind::Integer, 16);
  EXPECT_EQ(spelled(sysv_parameters({l, l, l, l, l, w, l}, {}, t.lookup(), Compiler::Llvm)),
            (Texts{"rdi", "rsi", "rdx", "rcx", "r8", "unknown", "unknown"}));
  EXPECT_EQ(spelled(sysv_parameters({l, l, l, l, l, w, l}, {}, t.lookup(), Compiler::Gcc)),
            (Texts{"rdi", "rsi", "rdx", "rcx", "r8", "[rsp+8]", "r9"}));
}

TEST(RustAbi, tells_only_what_both_of_its_conventions_do) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 4), l = t.scalar(Kind::Integer, 8), w = t.scalar(Kind::Integer, 16);
  TypeId f = t.scalar(Kind::Float, 4), d = t.scalar(Kind::Float, 8), b = t.scalar(Kind::Integer, 1);
  auto result = [&](TypeId id) {
    auto place = rust_result(id, t.lookup());
    return !place ? "unknown" : place->pieces.empty() ? "nothing" : spell(*place);
  };
  // Rust's debug info has the alignment of every struct.
  auto structure = [&](std::vector<std::pair<TypeId, uint64_t>> members, uint64_t size, uint64_t alignment) {
    Type type = t.lookup()(t.structure(std::move(members), size));
    type.alignment = alignment;
    return t.add(type);
  };
  EXPECT_EQ(result({}), "nothing");
  EXPECT_EQ(result(l), "rax");
  EXPECT_EQ(result(w), "64:rax 64:rdx");
  EXPECT_EQ(result(f), "xmm0");
  EXPECT_EQ(result(structure({{d, 0}}, 8, 8)), "xmm0");
  EXPECT_EQ(result(structure({{l, 0}, {d, 8}}, 16, 8)), "64:rax 64:xmm0");
  EXPECT_EQ(result(structure({{d, 8}, {b, 0}}, 16, 8)), "8:rax 56:bytes 00 00 00 00 00 00 00 64:xmm0");
  EXPECT_EQ(result(structure({{b, 0}, {b, 1}, {b, 2}}, 3, 1)), "rax");
  EXPECT_EQ(result(structure({{l, 0}, {l, 8}, {l, 16}}, 24, 8)), "[rax]");
  // C packs them into one register, Rust takes two.
  EXPECT_EQ(result(structure({{i, 0}, {i, 4}}, 8, 4)), "unknown");
  EXPECT_EQ(result(structure({{f, 0}, {f, 4}}, 8, 4)), "unknown");
  EXPECT_EQ(result(structure({{i, 0}, {i, 4}, {i, 8}}, 12, 4)), "unknown");
  Type choice{.kind = Kind::Struct, .size = 16};
  choice.variant_parts.emplace_back();
  EXPECT_EQ(result(t.add(choice)), "unknown");
  // Aligned further than what is in them, packed, or of an alignment that is not told: perhaps in memory.
  EXPECT_EQ(result(structure({{f, 0}}, 8, 8)), "unknown");
  EXPECT_EQ(result(structure({{l, 0}, {l, 8}}, 16, 16)), "unknown");
  EXPECT_EQ(result(structure({{l, 0}, {i, 8}}, 12, 1)), "unknown");
  EXPECT_EQ(result(structure({{structure({{b, 0}}, 8, 8), 0}, {l, 8}}, 16, 8)), "unknown");
  EXPECT_EQ(result(t.structure({{l, 0}, {l, 8}}, 16)), "unknown");
  EXPECT_EQ(result(structure({{w, 0}}, 16, 16)), "64:rax 64:rdx");
  EXPECT_EQ(result(structure({{w, 0}}, 16, 8)), "64:rax 64:rdx");
  // A member that lies outside.
  EXPECT_EQ(result(structure({{l, 0}, {i, uint64_t(1) << 40}}, 16, 8)), "unknown");
  // Perhaps a vector.
  EXPECT_EQ(result(t.add({.kind = Kind::Struct, .size = 32, .alignment = 32})), "unknown");
}

Texts go_spelled(const std::optional<GoCall>& call, bool results = false) {
  Texts text;
  for (const GoPlace& place : results ? call->results : call->parameters)
    text.push_back(spell(place.location));
  return text;
}

TEST(GoAbi, does_not_follow_members_out_of_their_struct) {
  Types t;
  TypeId l = t.scalar(Kind::Integer, 8);
  constexpr uint64_t far = uint64_t(1) << 40;
  EXPECT_FALSE(go_components(t.structure({{l, 0}, {l, far}}, 16), t.lookup()));
  EXPECT_FALSE(go_components(t.structure({{l, 0}, {l, 8}}, far), t.lookup()));
  auto call = go_call({t.structure({{l, 0}, {l, far}}, 16)}, {}, true, t.lookup());
  ASSERT_TRUE(call);
  EXPECT_FALSE(call->parameters[0].in_registers);
}

TEST(GoAbi, spreads_values_over_registers_or_puts_them_on_the_stack_whole) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 8), b = t.scalar(Kind::Integer, 1), f = t.scalar(Kind::Float, 8);
  TypeId s = t.scalar(Kind::GoString, 16), slice = t.scalar(Kind::GoSlice, 24);
  EXPECT_EQ(go_spelled(go_call({s, slice, f, i}, {}, true, t.lookup())),
            (Texts{"64:rax 64:rbx", "64:rcx 64:rdi 64:rsi", "xmm0", "r8"}));
  // Padding between components is filled in.
  EXPECT_EQ(go_spelled(go_call({t.structure({{b, 0}, {i, 8}}, 16)}, {}, true, t.lookup())),
            (Texts{"8:rax 56:bytes 00 00 00 00 00 00 00 64:rbx"}));
  // Eight are taken, a slice needs three: it goes to the stack, the next integer still gets R11.
  EXPECT_EQ(go_spelled(go_call({i, i, i, i, i, i, i, i, slice, i}, {}, true, t.lookup())).back(), "r11");
  EXPECT_EQ(go_spelled(go_call({i, i, i, i, i, i, i, i, slice, i}, {}, true, t.lookup()))[8], "[rsp+8]");
  TypeId array2 = t.add({.kind = Kind::Array, .size = 16, .target = i, .dimensions = {2}});
  TypeId array1 = t.add({.kind = Kind::Array, .size = 8, .target = i, .dimensions = {1}});
  EXPECT_EQ(go_spelled(go_call({array2, array1}, {}, true, t.lookup())), (Texts{"[rsp+8]", "rax"}));
  // Results start over with the registers; on the stack they follow the parameters.
  EXPECT_EQ(go_spelled(go_call({i, b}, {s, array2}, true, t.lookup()), true),
            (Texts{"64:rax 64:rbx", "[rsp+8]"}));
}

TEST(GoAbi, used_the_stack_before_1_17) {
  Types t;
  TypeId i = t.scalar(Kind::Integer, 8), b = t.scalar(Kind::Integer, 1), s = t.scalar(Kind::GoString, 16);
  auto call = go_call({b, i, b, s}, {b, i}, false, t.lookup());
  EXPECT_EQ(go_spelled(call), (Texts{"[rsp+8]", "[rsp+16]", "[rsp+24]", "[rsp+32]"}));
  EXPECT_EQ(go_spelled(call, true), (Texts{"[rsp+48]", "[rsp+56]"}));
}

}  // namespace
}  // namespace uscope::image
