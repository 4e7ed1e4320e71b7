#include "event/format.h"

#include <gtest/gtest.h>

namespace uscope::event {
namespace {

Value text(std::string value) { return {std::move(value)}; }

std::string formatted(std::string_view format, std::vector<Value> arguments) {
  std::string out;
  NoNames names;
  auto status = FormatString(format).append(out, arguments, names);
  return status ? out : "error: " + status.error().what();
}

// What bpftrace 0.27.1 prints for the same calls.
TEST(Format, AsBpftrace) {
  EXPECT_EQ(formatted("%-5d|%5s|%05d|%x|%X|%o|%c|%p|%#x|%+d|\n",
                      {signed_value(3), text("x"), signed_value(42), signed_value(255), signed_value(255),
                       signed_value(8), signed_value(65), signed_value(0x1234), signed_value(255),
                       signed_value(5)}),
            "3    |    x|00042|ff|FF|10|A|0x1234|0xff|+5|\n");
  EXPECT_EQ(formatted("%lu %llu %hd %hhd %ld %lld %i %u %zu\n",
                      {signed_value(1), signed_value(2), signed_value(3), signed_value(4), signed_value(5),
                       signed_value(6), signed_value(7), signed_value(8), signed_value(9)}),
            "1 2 3 4 5 6 7 8 9\n");
  EXPECT_EQ(formatted("%08x|%-8x|%#o|%+5d|%-+5d", {signed_value(255), signed_value(255), signed_value(8),
                                                   signed_value(7), signed_value(7)}),
            "000000ff|ff      |010|   +7|+7   ");
  EXPECT_EQ(
      formatted("%hhd %hd %hhu %x %u %hhx", {signed_value(300), signed_value(70000), signed_value(-1, 1),
                                             signed_value(-1, 1), signed_value(-1, 1), signed_value(-1, 1)}),
      "44 4464 255 ffffffff 4294967295 ff");
  EXPECT_EQ(formatted("%5d|%-5d", {signed_value(-42), signed_value(-42)}), "  -42|-42  ");
  EXPECT_EQ(formatted("%%|%d%%", {signed_value(5)}), "%|5%");
  EXPECT_EQ(formatted("%10s|%-10s", {text("abc"), text("abc")}), "       abc|abc       ");
  EXPECT_EQ(formatted("%llx %lx", {unsigned_value(~0ull), signed_value(-5)}),
            "ffffffffffffffff fffffffffffffffb");
  EXPECT_EQ(formatted("%x %d %u", {signed_value(-1, 1), unsigned_value(255, 1), signed_value(-3, 2)}),
            "ffffffff 255 4294967293");
  EXPECT_EQ(formatted("%5s|%-6s|", {Value{true}, signed_value(12)}), " true|12    |");
  EXPECT_EQ(formatted("%c|%5c|%-3c|", {signed_value(65), signed_value(66), signed_value(67)}),
            "A|    B|C  |");
  EXPECT_EQ(formatted("%hx %hhx %c", {signed_value(0x12345), signed_value(0x1234), signed_value(0x141)}),
            "2345 34 A");
  EXPECT_EQ(formatted("%s %d", {Value{true}, Value{true}}), "true 1");
  EXPECT_EQ(formatted("%-10d|%*d", {signed_value(3), signed_value(4)}), "3         |4");
}

TEST(Format, BytesInThreeWays) {
  Value bytes{Buffer{"ab\x01\xff\"\\\n"}};
  EXPECT_EQ(formatted("%r|%rh|%rx", {bytes, bytes, bytes}),
            "ab\\x01\\xff\"\\\\x0a|61 62 01 ff 22 5c 0a|\\x61\\x62\\x01\\xff\\x22\\x5c\\x0a");
}

// bpftrace 0.27 prints 878082192 for the first two: a wrong value shown as right.
TEST(Format, WholeDecimalsWithoutALength) {
  EXPECT_EQ(formatted("%d %u %i", {signed_value(0x1234567890), signed_value(0x1234567890),
                                   unsigned_value(0xffffffffffffffff)}),
            "78187493520 78187493520 -1");
}

// As C and bpftrace have it.
TEST(Format, AnIntWithoutALength) {
  EXPECT_EQ(formatted("%x %X %o %lx", {signed_value(0x1234567890), signed_value(0x1234567890),
                                       signed_value(0x100000008), signed_value(0x1234567890)}),
            "34567890 34567890 10 1234567890");
  EXPECT_EQ(formatted("%d %u", {unsigned_value(0xffffffff, 4), unsigned_value(0xffffffff, 4)}),
            "-1 4294967295");
}

TEST(Format, CsFlagsWhereBpftraceIgnoresThem) {
  EXPECT_EQ(formatted("% d|%.2s|%#010x|%05d|%5.3d", {signed_value(5), text("abcdef"), signed_value(255),
                                                     signed_value(-42), signed_value(7)}),
            " 5|ab|0x000000ff|-0042|  007");
}

TEST(Format, EnumsByNameAndNumber) {
  Value blue{EnumValue{Integer{7, false, 4}, "BLUE"}};
  Value unnamed{EnumValue{Integer{5, false, 4}, ""}};
  EXPECT_EQ(formatted("%s %d %s", {blue, blue, unnamed}), "BLUE 7 5");
}

TEST(Format, Floats) {
  EXPECT_EQ(formatted("%.2f|%8.1f|%g|%s|%d|%e", {Value{Float{1.5}}, Value{Float{2.25}}, Value{Float{0.1f, 4}},
                                                 Value{Float{0.1f, 4}}, Value{Float{-7.9}}, signed_value(1)}),
            "1.50|     2.2|0.1|0.1|-7|1.000000e+00");
}

TEST(Format, BinaryAndPointers) {
  EXPECT_EQ(
      formatted("%b %#b %p %p", {signed_value(5), signed_value(5), Value{Pointer{0x1234}}, signed_value(0)}),
      "101 0b101 0x1234 0");
}

TEST(Format, ExtremesOfSixtyFourBits) {
  EXPECT_EQ(formatted("%d %lu %d", {signed_value(INT64_MIN), unsigned_value(~0ull), signed_value(INT64_MAX)}),
            "-9223372036854775808 18446744073709551615 9223372036854775807");
}

TEST(Format, MismatchesAreErrorsAndWriteNothing) {
  EXPECT_EQ(formatted("a %d", {text("x")}), "error: argument 1: %d cannot show text");
  EXPECT_EQ(formatted("a %d %r", {signed_value(1), text("x")}), "error: argument 2: %r cannot show text");
  EXPECT_EQ(formatted("%d %d", {signed_value(1)}),
            "error: the format has 2 conversions, the record 1 arguments");
  std::string out = "kept";
  NoNames names;
  std::vector<Value> arguments = {signed_value(1), text("x")};
  EXPECT_FALSE(FormatString("%d %d").append(out, arguments, names).has_value());
  EXPECT_EQ(out, "kept");
}

TEST(Format, WhatIsNoConversionIsText) {
  EXPECT_EQ(formatted("100% %", {}), "100% %");
  EXPECT_EQ(formatted("%y %", {}), "%y %");
  EXPECT_EQ(formatted("", {}), "");
}

TEST(Format, HugeWidthsAreCut) {
  EXPECT_EQ(formatted("%999999999999d", {signed_value(1)}).size(), 4096u);
  EXPECT_EQ(formatted("%.999999999999d", {signed_value(1)}).size(), 4096u);
  EXPECT_EQ(formatted("%.9999999f", {Value{Float{1e300}}}).size(), 301u + 1 + 4096);
}

}  // namespace
}  // namespace uscope::event
