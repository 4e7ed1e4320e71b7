#include "lang/c_preprocessor.h"

#include <gtest/gtest.h>

#include "lang/c_condition.h"

namespace uscope::lang {
namespace {

struct Read {
  std::map<std::string, std::string> files;
  CPreprocessor preprocessor{
      [this](const std::string& name, const std::string&) -> std::optional<HeaderFile> {
        auto found = files.find(name);
        if (found == files.end()) return std::nullopt;
        return HeaderFile{name, found->second};
      }};
  // Words, one blank between two.
  std::string text(const std::string& header) {
    preprocessor.read({"main.h", header});
    std::string out;
    for (char c : preprocessor.text())
      if (c != '\n' && !(c == ' ' && (out.empty() || out.back() == ' '))) out += c;
    while (out.ends_with(' ')) out.pop_back();
    return out;
  }
};

std::string preprocessed(const std::string& header) { return Read().text(header); }

TEST(CPreprocessor, ConditionsChooseLines) {
  EXPECT_EQ(preprocessed("#define A 2\n#if A > 1 && defined(A)\nyes\n#elif 1\nno\n#else\nno\n#endif\n"),
            "yes");
  EXPECT_EQ(preprocessed("#ifdef A\nno\n#elif !defined B\nyes\n#else\nno\n#endif\nafter"), "yes after");
  EXPECT_EQ(preprocessed("#if 0\n#if 1\nno\n#else\nno\n#endif\n#else\nyes\n#endif"), "yes");
  EXPECT_EQ(preprocessed("#if __has_include(<a.h>)\nno\n#endif\nyes"), "yes");
}

TEST(CPreprocessor, MacrosAreExpanded) {
  EXPECT_EQ(preprocessed("#define N 4\nint a[N];"), "int a [ 4 ] ;");
  EXPECT_EQ(preprocessed("#define F(a, b) b a\nF(x, (y, z)) w"), "( y , z ) x w");
  EXPECT_EQ(preprocessed("#define F (a) b\nF"), "( a ) b");
  EXPECT_EQ(preprocessed("#define NOTHING(x)\na NOTHING((1, 2)) b"), "a b");
  EXPECT_EQ(preprocessed("#define USE(f) USE_ ## f\n#define USE_A 1\n#if USE (A)\nyes\n#endif"), "yes");
  EXPECT_EQ(preprocessed("#define S(x) #x\nS(a b)"), "\"a b\"");
  EXPECT_EQ(preprocessed("#define V(f, ...) f(__VA_ARGS__)\nV(g, 1, 2)"), "g ( 1 , 2 )");
  EXPECT_EQ(preprocessed("#define T struct \\\n tag\nT x; // end\n/* many\nlines */ T y;"),
            "struct tag x ; struct tag y ;");
  EXPECT_EQ(preprocessed("#define R(a, b) a b\nR (int,\n  x);"), "int x ;");
}

TEST(CPreprocessor, AMacroThatNamesItselfStays) {
  EXPECT_EQ(preprocessed("#define A A\nA"), "A");
  EXPECT_EQ(preprocessed("#define A B\n#define B A\nA B"), "A B");
}

TEST(CPreprocessor, HeadersIncludeHeaders) {
  Read read;
  read.files = {{"b.h", "#pragma once\n#define IN_B 1\nint b;\n"}, {"c.h", "#include \"b.h\"\nint c;\n"}};
  EXPECT_EQ(read.text("#include \"b.h\"\n#include <c.h>\n#include <missing.h>\n#ifdef IN_B\nint a;\n#endif"),
            "int b ; int c ; int a ;");
  ASSERT_EQ(read.preprocessor.problems().size(), 1u);
  EXPECT_EQ(read.preprocessor.problems()[0], "missing.h, which main.h includes, is not there");
}

TEST(CPreprocessor, HostileHeadersEnd) {
  Read loop;
  loop.files = {{"loop.h", "#include \"loop2.h\"\nint x;\n"}, {"loop2.h", "#include \"loop.h\"\n"}};
  loop.text("#include \"loop.h\"\n");
  EXPECT_FALSE(loop.preprocessor.problems().empty());
  std::string doubling = "#define A0 x x\n";
  for (int i = 1; i < 60; ++i)
    doubling +=
        "#define A" + std::to_string(i) + " A" + std::to_string(i - 1) + " A" + std::to_string(i - 1) + "\n";
  Read large;
  large.text(doubling + "A59\n");
  EXPECT_LT(large.preprocessor.text().size(), 64u << 20);
  std::string nested(100000, '(');
  Read().text("#define F(x) x\n" + std::string("F(") + nested + "\n#if " + nested + "\n#endif\n");
  std::string calls = "#define F(x) x\n";
  for (int i = 0; i < 20000; ++i) calls += "F(";
  Read().text(calls + std::string(20000, ')') + "\n");
  Read().text("#if 1" + [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "?1";
    return text;
  }());
}

TEST(CCondition, IsCsArithmetic) {
  EXPECT_EQ(c_condition_holds({"1", "+", "2", "*", "3", "==", "7"}), true);
  EXPECT_EQ(c_condition_holds({"201710L", ">=", "199901L"}), true);
  EXPECT_EQ(
      c_condition_holds({"(", "12", "<<", "16", ")", "+", "2", ">=", "(", "(", "4", ")", "<<", "16", ")"}),
      true);
  EXPECT_EQ(c_condition_holds({"unknown", "==", "0"}), true);
  EXPECT_EQ(c_condition_holds({"0", "?", "0", ":", "0x10", "==", "020"}), true);
  EXPECT_EQ(c_condition_holds({"1", "/", "0"}), false);
  EXPECT_EQ(c_condition_holds({"1", "+"}), std::nullopt);
  EXPECT_EQ(c_condition_holds({}), std::nullopt);
}

}  // namespace
}  // namespace uscope::lang
