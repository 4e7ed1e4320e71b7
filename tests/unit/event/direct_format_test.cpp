// The short way of a printf must read as the long one does.
#include "event/direct_format.h"

#include <gtest/gtest.h>

#include <random>

#include "event/decode.h"

namespace uscope::event {
namespace {

class NoNames final : public SymbolNames {
 public:
  std::vector<Frame> user_frames(uint32_t, uint64_t, bool) override { return {}; }
  std::vector<Frame> kernel_frames(uint64_t) override { return {}; }
  std::optional<std::string> user_name(uint64_t) override { return std::nullopt; }
  std::optional<std::string> cgroup_path(uint64_t, const std::string&) override { return std::nullopt; }
  int64_t boot_to_wall_ns() override { return 0; }
};

Field integer(uint64_t offset, uint64_t size, bool is_signed) {
  Field field;
  field.offset = offset;
  field.layout.kind = Layout::Kind::Integer;
  field.layout.size = size;
  field.layout.is_signed = is_signed;
  return field;
}

Field text(uint64_t offset, uint64_t size) {
  Field field = integer(offset, size, false);
  field.layout.kind = Layout::Kind::String;
  return field;
}

Format format_of(std::string spelled, std::vector<Field> fields) {
  Format format;
  format.text = std::move(spelled);
  format.arguments.kind = Layout::Kind::Tuple;
  format.arguments.fields = std::move(fields);
  return format;
}

std::string long_way(const Format& format, Bytes record) {
  NoNames names;
  auto values = decode_arguments(format, record);
  std::string out;
  if (!values || !FormatString(format.text).append(out, *values, names)) return "(failed)";
  return out;
}

TEST(DirectFormat, ReadsAsTheLongWay) {
  std::mt19937_64 random(7);
  const std::string conversions[] = {"%d", "%i", "%u", "%x", "%ld", "%lu", "%llx", "%lld"};
  for (int round = 0; round < 20000; ++round) {
    uint64_t size = uint64_t(1) << (random() % 4);
    Format format = format_of("a=" + conversions[random() % std::size(conversions)] + " b=%s%%\n",
                              {integer(random() % 5, size, random() % 2 == 0), text(16, 1 + random() % 8)});
    auto direct = DirectFormat::make(format, FormatString(format.text));
    ASSERT_TRUE(direct) << format.text;
    std::vector<uint8_t> record(24);
    for (uint8_t& byte : record)
      byte = random() % 3 == 0 ? uint8_t(random() % 2 ? 0xff : 0) : uint8_t(random());
    std::string short_way;
    ASSERT_TRUE(direct->append(short_way, record));
    ASSERT_EQ(short_way, long_way(format, record)) << format.text;
  }
}

TEST(DirectFormat, LeavesTheRestToTheLongWay) {
  Field number = integer(0, 8, true);
  for (const char* spelled :
       {"%5d", "%-d", "%+d", "%.3d", "%hd", "%c", "%p", "%s", "%o", "%X", "%#x", "%08x", "%hhx"}) {
    Format format = format_of(spelled, {number});
    EXPECT_FALSE(DirectFormat::make(format, FormatString(format.text))) << spelled;
  }
  Format format = format_of("%d", {number});
  format.arguments.fields[0].bit_width = 3;
  EXPECT_FALSE(DirectFormat::make(format, FormatString(format.text)));
  format = format_of("%d %d", {number});
  EXPECT_FALSE(DirectFormat::make(format, FormatString(format.text)));
  format = format_of("%d", {number});
  format.kind = FormatKind::System;
  EXPECT_FALSE(DirectFormat::make(format, FormatString(format.text)));
}

TEST(DirectFormat, ARecordThatIsTooShortIsLeftToo) {
  Format format = format_of("%d %s", {integer(0, 8, true), text(8, 4)});
  auto direct = DirectFormat::make(format, FormatString(format.text));
  ASSERT_TRUE(direct);
  std::vector<uint8_t> record(11, 'x');
  std::string out = "before";
  EXPECT_FALSE(direct->append(out, record));
  EXPECT_FALSE(direct->append(out, Bytes(record).first(8)));
  EXPECT_FALSE(direct->append(out, Bytes(record).first(4)));
  EXPECT_EQ(out, "before");
}

TEST(DirectFormat, ARecordMayEndWithItsLastTextsNul) {
  Format format = format_of("%d %s", {integer(0, 8, true), text(8, 64)});
  auto direct = DirectFormat::make(format, FormatString(format.text));
  ASSERT_TRUE(direct);
  std::vector<uint8_t> record = {7, 0, 0, 0, 0, 0, 0, 0, 'h', 'i', 0};
  std::string out;
  EXPECT_TRUE(direct->append(out, record));
  EXPECT_EQ(out, "7 hi");
  EXPECT_EQ(long_way(format, record), "7 hi");
}

TEST(DirectFormat, OnlyTheLastTextMayBeCutShort) {
  Format format = format_of("%s %d", {text(8, 64), integer(72, 8, true)});
  auto direct = DirectFormat::make(format, FormatString(format.text));
  ASSERT_TRUE(direct);
  std::string out;
  EXPECT_FALSE(direct->append(out, std::vector<uint8_t>(74)));
  Format turned = format_of("%d %s", {integer(72, 8, true), text(8, 64)});
  direct = DirectFormat::make(turned, FormatString(turned.text));
  ASSERT_TRUE(direct);
  EXPECT_FALSE(direct->append(out, std::vector<uint8_t>(20)));
}

}  // namespace
}  // namespace uscope::event
