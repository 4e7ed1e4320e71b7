#include <fmt/format.h>
#include <gtest/gtest.h>

#include "unit/image/dwarf/compiled.h"

namespace uscope::image::dwarf::testing {
namespace {

constexpr const char* cpp_source = R"(
#include <cstdint>
namespace shop {
enum class Color : unsigned char { Red = 1, Blue = 200 };
enum Plain { Low = -3, High = 9 };
struct Bits { unsigned a : 3; int b : 5; unsigned : 4; unsigned c : 20; uint64_t d : 40; bool e : 1; };
union Either { int i; double d; struct { short lo, hi; }; };
struct Base { virtual ~Base() {} int b; };
struct Left : virtual Base { int l; };
struct Other { long o; };
struct Both : Left, Other { static int shared; int own; char text[3][5]; };
template <typename T, int N> struct Box { T value[N]; T* next; using Item = T; };
struct Node { Node* next; Box<Node*, 2> box; int (*call)(int, const char*, ...); int Other::*field; };
struct Incomplete;
}
shop::Bits bits; shop::Either either; shop::Both real; shop::Both* both = &real; shop::Node node; shop::Color color; shop::Plain plain;
shop::Incomplete* incomplete;
int shop::Both::shared = 4;
thread_local int per_thread = 3;
namespace { int hidden = 7; }
typedef const volatile int cvint;
cvint cv = 5;
int main() { return bits.a + both->own + node.box.value[0]->box.value[1]->next->call(1, "") + hidden + per_thread + int(color) + plain; }
)";

std::string describe(const DebugInfo& info, const Type& type) {
  std::string text = fmt::format("{} {}:", type.qualified, type.size);
  for (const Member& member : type.members) {
    text += fmt::format(" {}{}@{}",
                        member.is_virtual_base ? "virtual "
                        : member.is_base       ? "base "
                                               : "",
                        member.name, member.offset);
    if (member.bit_size) text += fmt::format(".{}+{}", member.bit_offset, member.bit_size);
    if (member.is_static) text += "(static)";
    text += "=" + spell(info, member.type);
  }
  return text;
}

class Types : public ::testing::TestWithParam<std::string> {};

TEST_P(Types, are_read_with_layout) {
  if (!have(GetParam().substr(0, GetParam().find(' ')))) GTEST_SKIP() << GetParam() << ": no such compiler";
  auto opened = open(compile(cpp_source, ".cpp", GetParam() + " -w -std=c++17 {src} -o {out}"));
  const DebugInfo& info = opened->info;
  EXPECT_TRUE(info.problems().empty()) << info.problems().front();

  const Type& bits = type_named(info, "shop::Bits");
  std::vector<std::pair<uint64_t, uint32_t>> places;
  for (const Member& member : bits.members) places.emplace_back(member.bit_offset, member.bit_size);
  EXPECT_EQ(places,
            (std::vector<std::pair<uint64_t, uint32_t>>{{0, 3}, {3, 5}, {12, 20}, {64, 40}, {104, 1}}))
      << describe(info, bits);
  EXPECT_EQ(bits.size, 16u);

  const Type& color = type_named(info, "Color");
  EXPECT_EQ(color.qualified, "shop::Color");
  EXPECT_TRUE(color.is_enum_class);
  EXPECT_EQ(color.size, 1u);
  ASSERT_EQ(color.enumerators.size(), 2u);
  EXPECT_EQ(color.enumerators[1].value, 200);
  const Type& plain = type_named(info, "Plain");
  EXPECT_EQ(plain.enumerators[0].value, -3);
  EXPECT_TRUE(plain.is_signed);

  const Type& either = type_named(info, "Either");
  EXPECT_EQ(either.kind, Type::Kind::Union);
  ASSERT_EQ(either.members.size(), 3u);
  EXPECT_EQ(either.members[2].name, "");
  EXPECT_EQ(info.type(either.members[2].type).members[1].offset, 2u);

  const Type& both = type_named(info, "Both");
  EXPECT_TRUE(both.members.at(0).is_base && !both.members.at(0).is_virtual_base);
  EXPECT_EQ(both.members.at(1).name, "Other");
  EXPECT_EQ(both.members.at(1).offset, 16u);
  const Type& left = type_named(info, "Left");
  EXPECT_TRUE(left.members.at(0).is_virtual_base);
  bool has_static = false;
  for (const Member& member : both.members) {
    EXPECT_TRUE(member.name != "text" || spell(info, member.type) == "char[3][5]");
    has_static |= member.name == "shared" && member.is_static;
  }
  EXPECT_TRUE(has_static);

  const Type& box = info.type(type_named(info, "Node").members[1].type);
  EXPECT_TRUE(box.qualified == "shop::Box<shop::Node*, 2>" || box.qualified == "shop::Box<shop::Node *, 2>")
      << box.qualified;
  ASSERT_EQ(box.template_arguments.size(), 2u);
  EXPECT_EQ(spell(info, box.template_arguments[0].type), "shop::Node*");
  EXPECT_EQ(box.template_arguments[1].value, 2);
  const Type& call = info.type(info.type(type_named(info, "Node").members[2].type).target);
  EXPECT_EQ(call.kind, Type::Kind::Function);
  EXPECT_TRUE(call.is_variadic);
  EXPECT_EQ(call.parameters.size(), 2u);
  EXPECT_EQ(info.type(type_named(info, "Node").members[3].type).kind, Type::Kind::MemberPointer);

  auto incomplete = info.find_types("shop::Incomplete");
  ASSERT_EQ(incomplete.size(), 1u);
  EXPECT_TRUE(info.type(incomplete[0]).is_declaration);
  EXPECT_GE(info.find_types("shop::*").size(), 8u);
  EXPECT_TRUE(info.find_types("NoSuch").empty());
}

TEST_P(Types, and_globals_have_places) {
  if (!have(GetParam().substr(0, GetParam().find(' ')))) GTEST_SKIP() << GetParam() << ": no such compiler";
  std::string path = compile(cpp_source, ".cpp", GetParam() + " -w -std=c++17 {src} -o {out}");
  auto opened = open(path);
  const DebugInfo& info = opened->info;
  auto bits = info.global("bits");
  ASSERT_TRUE(bits);
  ASSERT_TRUE(bits->location.as_static_address());
  std::string symbol = run(fmt::format("nm {} | grep ' bits$'", path));
  EXPECT_EQ(bits->location.as_static_address()->value, std::stoull(symbol, nullptr, 16));
  auto shared = info.global("shop::Both::shared");
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->location.as_static_address());
  auto hidden = info.global("hidden");
  ASSERT_TRUE(hidden);
  EXPECT_EQ(hidden->name, "(anonymous namespace)::hidden");
  auto per_thread = info.global("per_thread");
  ASSERT_TRUE(per_thread);
  EXPECT_EQ(per_thread->location.pieces.at(0).ops.back().code, LocOp::Code::TlsAddress);
  std::string qualified = spell(info, info.type(info.global("cv")->type).target);
  EXPECT_TRUE(qualified == "const volatile int" || qualified == "volatile const int") << qualified;
  EXPECT_FALSE(info.global("nothing"));
}

INSTANTIATE_TEST_SUITE_P(Compilers, Types,
                         ::testing::Values("g++ -gdwarf-4", "g++ -gdwarf-5", "g++ -gdwarf-3",
                                           "clang++-14 -gdwarf-4 -fstandalone-debug",
                                           "clang++-14 -gdwarf-5 -fstandalone-debug",
                                           "g++ -gdwarf-4 -fdebug-types-section",
                                           "g++ -gdwarf-5 -fdebug-types-section", "g++ -gdwarf-5 -gz=zlib",
                                           "g++ -gdwarf-4 -gz=zlib-gnu",
                                           "g++ -gdwarf-5 -gsplit-dwarf -fdebug-types-section"));

TEST(RustTypes, have_variants) {
  if (!have("rustc")) GTEST_SKIP() << "no rustc";
  auto opened = open(compile(R"(
pub enum Shape { Circle(f64), Rect { w: u32, h: u32 }, Empty }
#[inline(never)] fn area(s: &Shape, o: Option<&u32>) -> f64 { match s { Shape::Circle(r) => *r, Shape::Rect { w, h } => (w * h) as f64, Shape::Empty => *o.unwrap() as f64 } }
fn main() { let n = 3; println!("{}", area(&Shape::Circle(2.0), Some(&n)) + area(&Shape::Rect { w: 1, h: 2 }, None) + area(&Shape::Empty, Some(&n))); }
)",
                             ".rs", "rustc --crate-name shapes -g {src} -o {out}"));
  const Type& shape = type_named(opened->info, "shapes::Shape");
  ASSERT_EQ(shape.variant_parts.size(), 1u);
  const VariantPart& part = shape.variant_parts[0];
  ASSERT_TRUE(part.discriminant);
  ASSERT_EQ(part.variants.size(), 3u);
  EXPECT_EQ(part.variants[0].name, "Circle");
  EXPECT_EQ(part.variants[1].discriminants, std::vector<uint64_t>{1});
  const Type& rect = opened->info.type(part.variants[1].type);
  ASSERT_EQ(rect.members.size(), 2u);
  EXPECT_EQ(rect.members[0].name, "w");
  // A niche: the variant that is everything else has no value of its own.
  Function area = function_named(opened->info, "shapes::area");
  const Type& option = opened->info.type(area.parameters.at(1).type);
  ASSERT_EQ(option.variant_parts.size(), 1u);
  size_t defaults = 0;
  for (const Variant& variant : option.variant_parts[0].variants) defaults += variant.discriminants.empty();
  EXPECT_EQ(defaults, 1u);
}

}  // namespace
}  // namespace uscope::image::dwarf::testing
