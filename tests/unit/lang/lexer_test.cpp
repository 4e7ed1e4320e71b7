#include "lang/lexer.h"

#include <gtest/gtest.h>

#include "lang/int_literal.h"

namespace uscope::lang {
namespace {

uint64_t value(std::string_view text) {
  auto parsed = parse_int_literal(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(0xdead);
}

std::string problem(std::string_view text) {
  auto parsed = parse_int_literal(text);
  return parsed ? "fine" : parsed.error().message;
}

TEST(IntLiteral, BasesSeparatorsAndExponents) {
  EXPECT_EQ(value("0"), 0u);
  EXPECT_EQ(value("017"), 15u);
  EXPECT_EQ(value("0xFFFFFFFFFFFFFFFF"), UINT64_MAX);
  EXPECT_EQ(value("0XaB"), 171u);
  EXPECT_EQ(value("1_000_000"), 1000000u);
  EXPECT_EQ(value("1e6"), 1000000u);
  EXPECT_EQ(value("18446744073709551615"), UINT64_MAX);
}

TEST(IntLiteral, Suffixes) {
  EXPECT_EQ(value("5u"), 5u);
  EXPECT_EQ(value("5UL"), 5u);
  EXPECT_EQ(value("5ll"), 5u);
  EXPECT_EQ(value("7ns"), 7u);
  EXPECT_EQ(value("1us"), 1000u);
  EXPECT_EQ(value("100ms"), 100000000u);
  EXPECT_EQ(value("1s"), 1000000000u);
  EXPECT_EQ(value("1m"), 60000000000u);
  EXPECT_EQ(value("1h"), 3600000000000u);
  EXPECT_EQ(value("1d"), 86400000000000u);
}

TEST(IntLiteral, Mistakes) {
  EXPECT_EQ(problem("08"), "invalid trailing bytes: 08");
  EXPECT_EQ(problem("1x"), "invalid integer suffix 'x'");
  EXPECT_EQ(problem("18446744073709551616"),
            "overflow error, maximum value is 18446744073709551615: 18446744073709551616");
  EXPECT_EQ(problem("1e30"), "overflow error, maximum value is 18446744073709551615: 1e30");
  EXPECT_EQ(problem("10e2"), "coefficient part of scientific literal must be 1-9: 10e2");
  EXPECT_EQ(problem("999999999d"), "overflow error, maximum value is 18446744073709551615: 999999999d");
  EXPECT_EQ(problem("0x"), "invalid integer: 0x");
  EXPECT_EQ(problem(""), "invalid integer: ");
}

std::vector<Token> tokens(const std::string& text) {
  static std::vector<std::unique_ptr<Source>> keep;
  keep.push_back(std::make_unique<Source>("t", text));
  Lexer lexer(*keep.back(), 0);
  std::vector<Token> out;
  while (out.empty() || (out.back().kind != Tok::kEnd && out.back().kind != Tok::kError))
    out.push_back(lexer.next());
  return out;
}

TEST(Lexer, LongestOperatorWins) {
  auto all = tokens("<<= << <= < -> -- -= ..");
  std::vector<Tok> want = {Tok::kShiftLeftAssign, Tok::kShiftLeft,   Tok::kLessEqual, Tok::kLess, Tok::kArrow,
                           Tok::kDecrement,       Tok::kMinusAssign, Tok::kDotDot,    Tok::kEnd};
  ASSERT_EQ(all.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(all[i].kind, want[i]) << i;
}

TEST(Lexer, SigilsAndParameters) {
  auto all = tokens("$x @ @m $1 $#");
  EXPECT_EQ(all[0].text, "$x");
  EXPECT_EQ(all[1].text, "@");
  EXPECT_EQ(all[2].text, "@m");
  EXPECT_EQ(all[3].integer, 1u);
  EXPECT_EQ(all[4].kind, Tok::kPositionalCount);
}

TEST(Lexer, RangesAreNotFloats) {
  auto all = tokens("0..5 1.5 2.5e-3");
  EXPECT_EQ(all[0].kind, Tok::kInt);
  EXPECT_EQ(all[1].kind, Tok::kDotDot);
  EXPECT_EQ(all[2].integer, 5u);
  EXPECT_DOUBLE_EQ(all[3].real, 1.5);
  EXPECT_DOUBLE_EQ(all[4].real, 0.0025);
}

TEST(Lexer, StringEscapes) {
  EXPECT_EQ(tokens(R"("a\n\t\r\\\"\x41\101\0b")")[0].text, std::string("a\n\t\r\\\"AA\0b", 10));
  EXPECT_EQ(tokens(R"("\q")")[0].text, "invalid escape character '\\q'");
  EXPECT_EQ(tokens(R"("\xg")")[0].text, "invalid hex escape sequence");
  EXPECT_EQ(tokens(R"("\400")")[0].text, "octal escape sequence out of range '\\400'");
  EXPECT_EQ(tokens("\"abc")[0].text, "unterminated string");
  EXPECT_EQ(tokens("\"abc\\")[0].kind, Tok::kError);
}

TEST(Lexer, CharactersAreIntegers) {
  EXPECT_EQ(tokens("'A'")[0].integer, 65u);
  EXPECT_EQ(tokens(R"('\n')")[0].integer, 10u);
  EXPECT_EQ(tokens(R"('\'')")[0].integer, 39u);
  EXPECT_EQ(tokens("''")[0].kind, Tok::kError);
  EXPECT_EQ(tokens("'ab'")[0].kind, Tok::kError);
}

TEST(Lexer, CommentsAreKeptOnce) {
  Source source("t", "a /* one */ b // two\nc");
  Lexer lexer(source, 0);
  for (int pass = 0; pass < 2; ++pass) {
    lexer.seek(0);
    for (int i = 0; i < 3; ++i) lexer.next();
  }
  ASSERT_EQ(lexer.comments().size(), 2u);
  EXPECT_EQ(lexer.comments()[0].text, "/* one */");
  EXPECT_EQ(lexer.comments()[1].text, "// two");
}

TEST(Lexer, PositionalParametersHaveARange) {
  EXPECT_EQ(tokens("$0")[0].text, "param $0 is out of integer range [1, 9223372036854775807]");
  EXPECT_EQ(tokens("$9223372036854775808")[0].kind, Tok::kError);
  EXPECT_EQ(tokens("$ ")[0].text, "expected identifier after '$'");
}

}  // namespace
}  // namespace uscope::lang
