#include "event/decode.h"

#include <gtest/gtest.h>

#include <cstring>

namespace uscope::event {
namespace {

using Kind = Layout::Kind;

// The bytes of several numbers or texts in a row.
struct Packed {
  std::vector<uint8_t> bytes;
  template <typename T>
  Packed& add(T value) {
    size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(&bytes[at], &value, sizeof value);
    return *this;
  }
  Packed& text(std::string_view text, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes.push_back(i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
    return *this;
  }
};

Layout integer(uint64_t size, bool is_signed = true) {
  return {.kind = Kind::Integer, .size = size, .is_signed = is_signed};
}

Value decoded(const Layout& layout, const Packed& packed) {
  auto value = decode(layout, packed.bytes);
  EXPECT_TRUE(value.has_value()) << (value ? "" : value.error().what());
  return value ? *value : Value{};
}

TEST(Decode, IntegersKeepTheirSignAndWidth) {
  auto small = decoded(integer(1), Packed().add<int8_t>(-2));
  EXPECT_EQ(small.get_if<Integer>()->as_signed(), -2);
  EXPECT_EQ(small.get_if<Integer>()->size, 1);
  auto wide = decoded(integer(4, false), Packed().add<uint32_t>(0xffffffff));
  EXPECT_EQ(wide.get_if<Integer>()->bits, 0xffffffffu);
}

TEST(Decode, TextEndsAtItsNul) {
  EXPECT_EQ(*decoded({.kind = Kind::String, .size = 8}, Packed().text("hi", 8)).get_if<std::string>(), "hi");
}

TEST(Decode, TextThatFillsItsPlaceIsMarkedIfItWasCut) {
  auto shown = [](uint64_t size, std::string trailer) {
    Layout layout{.kind = Kind::String, .size = size};
    layout.trailer = std::move(trailer);
    return *decoded(layout, Packed().text("str", size)).get_if<std::string>();
  };
  EXPECT_EQ(shown(3, ""), "str");
  EXPECT_EQ(shown(4, ".."), "str..");
  EXPECT_EQ(shown(5, ".."), "str");
}

TEST(Decode, BufferHasItsOwnLength) {
  Layout layout{.kind = Kind::Buffer, .size = 12};
  EXPECT_EQ(decoded(layout, Packed().add<uint32_t>(2).text("abc", 8)).get_if<Buffer>()->bytes, "ab");
  EXPECT_FALSE(decode(layout, Packed().add<uint32_t>(9).text("abc", 8).bytes).has_value());
}

TEST(Decode, BitfieldsOfBothSigns) {
  Layout layout{.kind = Kind::Struct, .size = 4};
  layout.fields.push_back(Field{"a", integer(4, false), 0, 0, 3});
  layout.fields.push_back(Field{"b", integer(4, true), 0, 3, 5});
  auto value = decoded(layout, Packed().add<uint32_t>(3 | (0b11110 << 3)));
  const Record* record = value.get_if<Record>();
  EXPECT_EQ(record->fields[0].second.get_if<Integer>()->bits, 3u);
  EXPECT_EQ(record->fields[1].second.get_if<Integer>()->as_signed(), -2);
}

TEST(Decode, EnumeratorsByNumber) {
  Layout layout{.kind = Kind::Enum, .size = 4};
  layout.enumerators = {{0, "RED"}, {7, "BLUE"}};
  EXPECT_EQ(decoded(layout, Packed().add<uint32_t>(7)).get_if<EnumValue>()->name, "BLUE");
  EXPECT_EQ(decoded(layout, Packed().add<uint32_t>(5)).get_if<EnumValue>()->name, "");
}

TEST(Decode, ArraysOfArrays) {
  Layout inner{.kind = Kind::Array, .size = 8, .count = 2};
  inner.fields.push_back(Field{"", integer(4), 0, 0, 0});
  Layout outer{.kind = Kind::Array, .size = 16, .count = 2};
  outer.fields.push_back(Field{"", inner, 0, 0, 0});
  auto value = decoded(outer, Packed().add(1).add(2).add(3).add(4));
  const Array* rows = value.get_if<Array>();
  ASSERT_EQ(rows->elements.size(), 2u);
  EXPECT_EQ(rows->elements[1].get_if<Array>()->elements[0].get_if<Integer>()->as_signed(), 3);
}

TEST(Decode, FloatsOfBothWidths) {
  EXPECT_EQ(decoded({.kind = Kind::Float, .size = 4}, Packed().add(2.5f)).get_if<Float>()->number, 2.5);
  EXPECT_EQ(decoded({.kind = Kind::Float, .size = 8}, Packed().add(1e300)).get_if<Float>()->number, 1e300);
  auto other = decode({.kind = Kind::Float, .size = 16}, Packed().text("", 16).bytes);
  ASSERT_TRUE(other);
  EXPECT_EQ(*other->get_if<std::string>(), "<a float of 16 bytes>");
}

TEST(Decode, AShortRecordNamesTheArgument) {
  Format format;
  format.arguments.kind = Kind::Tuple;
  format.arguments.fields = {Field{"", integer(8), 0, 0, 0}, Field{"", integer(8), 8, 0, 0}};
  auto arguments = decode_arguments(format, Packed().add<uint64_t>(1).add<uint32_t>(2).bytes);
  ASSERT_FALSE(arguments.has_value());
  EXPECT_EQ(arguments.error().what(), "argument 2 needs 8 bytes at 8, the record has 12");
}

TEST(Decode, AShortStructNamesTheField) {
  Layout inner{.kind = Kind::Struct, .size = 4};
  inner.fields = {Field{"x", integer(4), 0, 0, 0}};
  Layout layout{.kind = Kind::Struct, .size = 8};
  layout.fields = {Field{"in", inner, 4, 0, 0}};
  auto value = decode(layout, Packed().add<uint32_t>(1).bytes);
  ASSERT_FALSE(value.has_value());
  EXPECT_EQ(value.error().what(), "the value.in.x needs 4 bytes at 4, the record has 4");
}

TEST(Decode, AStackSaysNoMoreFramesThanItHolds) {
  Layout layout{.kind = Kind::UserStack, .size = 32};
  auto good = decoded(
      layout,
      Packed().add<uint32_t>(7).add<uint32_t>(8).add<uint64_t>(2).add<uint64_t>(0x10).add<uint64_t>(0x20));
  EXPECT_EQ(good.get_if<Stack>()->addresses, (std::vector<uint64_t>{0x10, 0x20}));
  EXPECT_EQ(good.get_if<Stack>()->pid, 7u);
  EXPECT_FALSE(decode(layout, Packed().add<uint64_t>(0).add<uint64_t>(~0ull).text("", 16).bytes).has_value());
}

TEST(Decode, HostileLayoutsAreRefused) {
  Layout deep{.kind = Kind::Integer, .size = 1};
  for (int i = 0; i < 200; ++i) {
    Layout outer{.kind = Kind::Struct, .size = 1};
    outer.fields.push_back(Field{"f", deep, 0, 0, 0});
    deep = outer;
  }
  EXPECT_FALSE(decode(deep, Packed().text("", 8).bytes).has_value());
  Layout far{.kind = Kind::Struct};
  far.fields = {Field{"f", integer(8), ~0ull, 0, 0}};
  EXPECT_FALSE(decode(far, Packed().text("", 8).bytes).has_value());
  Layout many{.kind = Kind::Array, .count = ~0ull};
  many.fields = {Field{"", integer(8), 0, 0, 0}};
  EXPECT_FALSE(decode(many, Packed().text("", 8).bytes).has_value());
  EXPECT_FALSE(decode(integer(9), Packed().text("", 16).bytes).has_value());
  EXPECT_FALSE(decode({.kind = Kind::Timestamp}, Packed().text("", 16).bytes).has_value());
}

TEST(Decode, AveragesRoundTowardsZeroAsCDoes) {
  Layout layout{.kind = Kind::Stats, .is_signed = true};
  auto value = decoded(layout, Packed().add<int64_t>(-5).add<uint64_t>(2));
  EXPECT_EQ(value.get_if<Stats>()->average.as_signed(), -2);
  EXPECT_EQ(decoded(layout, Packed().add<int64_t>(0).add<uint64_t>(0)).get_if<Stats>()->average.bits, 0u);
}

TEST(Decode, ASeriesForgetsIntervalsOfEarlierRounds) {
  Layout layout{.kind = Kind::Tseries, .is_signed = true, .tseries_interval_ns = 100, .tseries_intervals = 3};
  layout.tseries_aggregation = "avg";
  Packed packed;
  packed.add<uint64_t>(8).add<uint64_t>(2).add<uint64_t>(12);
  packed.add<uint64_t>(1).add<uint64_t>(1).add<uint64_t>(4);
  packed.add<uint64_t>(5).add<uint64_t>(1).add<uint64_t>(11);
  auto value = decoded(layout, packed);
  const auto& points = value.get_if<TimeSeries>()->points;
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].epoch, 11u);
  EXPECT_EQ(points[1].value.as_signed(), 4);
}

TEST(DecodeMap, MergesCopiesOfEachKey) {
  MapPlan map{
      .name = "@x", .program_map = 0, .key = integer(8), .value = {.kind = Kind::Count}, .is_per_cpu = true};
  std::vector<RawEntry> raw = {
      {Packed().add<uint64_t>(5).bytes, {Packed().add<uint64_t>(2).bytes, Packed().add<uint64_t>(3).bytes}}};
  auto contents = decode_map(map, raw);
  ASSERT_TRUE(contents.has_value());
  EXPECT_EQ(contents->entries[0].key->get_if<Integer>()->bits, 5u);
  EXPECT_EQ(contents->entries[0].value.get_if<Integer>()->bits, 5u);
  raw[0].key.resize(4);
  EXPECT_EQ(decode_map(map, raw).error().what(), "a key of @x needs 8 bytes at 0, the record has 4");
}

}  // namespace
}  // namespace uscope::event
