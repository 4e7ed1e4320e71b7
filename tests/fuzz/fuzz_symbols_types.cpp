// Type graphs that no compiler makes (cycles, wild offsets, sizes that do not fit), spelled, laid out and
// printed; and names that no compiler writes, shortened. None of it may hang, crash or grow without bounds.
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "symbols/short_names.h"
#include "symbols/type_layout.h"
#include "symbols/type_print.h"
#include "symbols/type_spelling.h"

using namespace uscope;
using namespace uscope::image;
using namespace uscope::symbols;

namespace {

Member read_member(ByteReader& reader) {
  Member member;
  const uint8_t flags = reader.u8();
  member.type = {reader.u8()};
  member.offset = flags & 1 ? reader.u64() : reader.u8();
  if (flags & 2) member.name = "m";
  if (flags & 4) {
    member.bit_size = reader.u8();
    member.bit_offset = flags & 1 ? reader.u64() : reader.u8();
  }
  member.is_base = flags & 8;
  member.is_virtual_base = flags & 16;
  member.is_static = flags & 32;
  member.is_embedded = flags & 64;
  return member;
}

Type read_type(ByteReader& reader) {
  Type type;
  type.kind = static_cast<Type::Kind>(reader.u8() % (int(Type::Kind::GoInterface) + 1));
  type.language = static_cast<Language>(reader.u8() % (int(Language::Other) + 1));
  const uint8_t flags = reader.u8();
  type.size = flags & 1 ? reader.u64() : reader.u8();
  type.target = {reader.u8()};
  type.key = {reader.u8()};
  if (flags & 2) type.name = type.qualified = "std::vector<int, std::allocator<int> >";
  for (int i = flags >> 2 & 7; i > 0; --i) type.members.push_back(read_member(reader));
  if (flags & 32) type.dimensions = {reader.u8(), std::nullopt};
  if (flags & 64) type.parameters = {TypeId{reader.u8()}, TypeId{reader.u8()}, TypeId{reader.u8()}};
  if (flags & 128) {
    VariantPart part;
    part.discriminant = read_member(reader);
    part.variants.push_back({.name = "V", .discriminants = {reader.u64()}, .type = {reader.u8()}});
    type.variant_parts.push_back(part);
  }
  return type;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = as_text({data, size});
  short_cpp_name(text);
  short_rust_name(text);
  short_go_name(text);
  short_cpp_name("std::vector<" + std::string(text) + ">");

  std::vector<Type> types(1);
  ByteReader reader({data, size});
  while (!reader.at_end() && !reader.failed() && types.size() < 64) types.push_back(read_type(reader));
  const image::TypeLookup resolve = [&](TypeId id) -> const Type& { return types[id.value % types.size()]; };
  for (size_t i = 1; i < types.size() && i < 4; ++i) {
    if (spell_declaration({i}, "name", resolve).size() > 1 << 20) __builtin_trap();
    spell_type({i}, resolve, TypeStyle::Perf);
    print_type(layout_type({i}, resolve, data[0] % 4));
  }
  return 0;
}
