// The passes that rewrite a tree without knowing types: parameters, macros, constants, #defines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lang/c_types.h"
#include "lang/fold.h"
#include "lang/macros.h"
#include "lang/parameters.h"
#include "parsing.h"

namespace uscope::lang {
namespace {

std::string last_body(Program& program) {
  std::string text = sexpr(std::get<Probe>(program.items.back()).body);
  return text.substr(1, text.size() - 2);
}

std::string with_parameters(const std::string& statements, const CommandLine& command_line) {
  Parsed parsed("BEGIN { " + statements + " }");
  apply_parameters(*parsed.program, command_line, parsed.diagnostics);
  return parsed.diagnostics.has_errors() ? first_error(parsed.diagnostics) : last_body(*parsed.program);
}

TEST(Parameters, NumbersAndTexts) {
  CommandLine line{{"42", "-7", "abc"}, {}};
  EXPECT_EQ(with_parameters("f($1, $2, $3, $4, $#);", line), "(call f 42 -7 \"abc\" 0 3);");
  EXPECT_EQ(with_parameters("f(str($1), str($3), str($3 + 1), str($9), str($3, 2));", line),
            "(call f \"42\" \"abc\" \"bc\" \"\" (call str \"abc\" 2));");
}

TEST(Parameters, Getopt) {
  CommandLine line{{}, {{"n", "5"}, {"flag", std::nullopt}, {"s", "text"}}};
  EXPECT_EQ(
      with_parameters("f(getopt(\"n\", 1), getopt(\"flag\"), getopt(\"s\", \"d\"), getopt(\"z\", 9));", line),
      "(call f 5 true \"text\" 9);");
  EXPECT_EQ(with_parameters("getopt(pid);", {}), "First argument to 'getopt' must be a string literal.");
  EXPECT_EQ(with_parameters("getopt(\"a\", pid);", {}),
            "Second argument to 'getopt' must be a string literal, integer literal, or a boolean literal.");
  EXPECT_EQ(with_parameters("getopt(\"n\", 1);", {{}, {{"n", "x"}}}),
            "program command line option --n invalid integer (value: x)");
  EXPECT_EQ(with_parameters("1;", {{}, {{"n", "x"}}}), "unexpected program command line options: --n");
}

std::string expanded(const std::string& script) {
  Parsed parsed(script);
  if (!parsed.program) return parsed.errors();
  expand_macros(*parsed.program, parsed.diagnostics);
  return parsed.diagnostics.has_errors() ? first_error(parsed.diagnostics) : last_body(*parsed.program);
}

TEST(Macros, ArgumentsAreInsertedAndVariablesRenamed) {
  EXPECT_EQ(expanded("macro one() { 1 } BEGIN { f(one, one()); }"), "(call f {1} {1});");
  EXPECT_EQ(expanded("macro add(x) { x + 1 } BEGIN { add(2 * 3); }"), "{(+ (* 2 3) 1)};");
  EXPECT_EQ(expanded("macro set($a, @b) { $a += 1; @b[1] = $a; } BEGIN { $x = 0; set($x, @y); }"),
            "(= $x 0);{(+= $x 1);(= (at @y 1) $x);};");
  EXPECT_EQ(expanded("macro own(a) { let $t = a; $t } BEGIN { $t = 5; own($t); own(2); }"),
            "(= $t 5);{(let $$own_1_$t - $t);$$own_1_$t};{(let $$own_2_$t - 2);$$own_2_$t};");
}

TEST(Macros, NestedCalls) {
  EXPECT_EQ(expanded("macro a(x) { x + 1 } macro b(x) { a(x) * 2 } BEGIN { b(a(3)); }"),
            "{(* {(+ {(+ 3 1)} 1)} 2)};");
}

TEST(Macros, Mistakes) {
  EXPECT_EQ(expanded("macro f($a) { $a } BEGIN { f(1); }"),
            "Call to f() has arguments that do not match any definition.");
  EXPECT_EQ(expanded("macro f(a) { @x = a; } BEGIN { f(1); }"),
            "Unhygienic access to map: @x. Maps must be passed into the macro as arguments.");
  EXPECT_EQ(expanded("macro f(a) { g(a) } macro g(a) { f(a) } BEGIN { f(1); }"),
            "Recursive macro call detected. Call chain: f > g > f");
  EXPECT_EQ(expanded("macro f(a) { a } macro f(b) { b } BEGIN { f(1); }"), "Redefinition of macro: f");
  EXPECT_EQ(expanded("macro f(a, a) { a } BEGIN { f(1, 2); }"),
            "Ident for macro argument has already been used: a");
  EXPECT_EQ(expanded("macro f() { return 1; } BEGIN { f(); }"),
            "'return' statement is not allowed in a macro");
}

TEST(Macros, BombsAreDefused) {
  std::string script = "macro m0(x) { x }";
  for (int i = 1; i < 40; ++i) script += fmt::format("macro m{}(x) {{ m{}(x) + m{}(x) }}", i, i - 1, i - 1);
  EXPECT_EQ(expanded(script + " BEGIN { m39(1); }"), "too many macro expansions");
}

std::string folded(const std::string& statements) {
  Parsed parsed("BEGIN { " + statements + " }");
  fold_constants(*parsed.program, parsed.diagnostics);
  return parsed.diagnostics.has_errors() ? first_error(parsed.diagnostics) : last_body(*parsed.program);
}

TEST(Macros, ArgumentsThatDoubleEndInAnError) {
  std::string call = "1";
  for (int i = 0; i < 26; ++i) call = "dbl(" + call + ")";
  Parsed parsed("macro dbl(x) { x + x } BEGIN { $a = " + call + "; }");
  expand_macros(*parsed.program, parsed.diagnostics);
  EXPECT_EQ(first_error(parsed.diagnostics), "the macros expand to too much");
}

TEST(Fold, Arithmetic) {
  EXPECT_EQ(
      folded("f(1 + 2 * 3, 7 / 2, -7 / 2, 7 % 4, 5 - 6, 1 << 4, -8 >> 1, 6 & 3, 6 | 1, 6 ^ 2, ~0, -(5));"),
      "(call f 7 3 -3 3 -1 16 -4 2 7 4 18446744073709551615 -5);");
  EXPECT_EQ(folded("f(18446744073709551615, -9223372036854775808, 0x8000000000000000 + 1);"),
            "(call f 18446744073709551615 -9223372036854775808 9223372036854775809);");
}

TEST(Fold, WhatDoesNotFitIsAnError) {
  for (const char* bad : {"1 / 0;", "5 % 0;", "18446744073709551615 + 1;", "1 << 64;",
                          "-9223372036854775808 - 1;", "-18446744073709551615;"}) {
    EXPECT_EQ(folded(bad), "unable to fold literals due to overflow or underflow") << bad;
  }
}

TEST(Fold, ComparisonsLogicAndBranches) {
  EXPECT_EQ(folded("f(1 < 2, -1 < 0xffffffffffffffff, \"a\" == \"a\", \"a\" == \"b\", 1 && 0, 0 || 2, !5);"),
            "(call f true true true false false true false);");
  EXPECT_EQ(folded("f(1 ? 2 : 3, 0 ? 2 : 3, 5 ?: 6);"), "(call f 2 3 5);");
  EXPECT_EQ(folded("if comptime (1 == 1) { f(); } else { g(); }"), "{(call f);};");
  EXPECT_EQ(folded("f($x + 1, $x && 1);"), "(call f (+ $x 1) (&& $x 1));");
}

// The script's last body, or what is wrong.
std::string with_defines(const std::string& script) {
  Parsed parsed(script);
  CTypes types = CTypes::read(*parsed.program, parsed.sources, NoTypes(), {}, parsed.diagnostics);
  expand_defines(*parsed.program, types, parsed.sources, parsed.diagnostics);
  return parsed.diagnostics.has_errors() ? first_error(parsed.diagnostics) : last_body(*parsed.program);
}

TEST(Defines, ConstantsTakeTheirNamesPlace) {
  EXPECT_EQ(
      with_defines("#define A (B + 1)\n#define B 2\n#define S \"x\"\n#define SELF SELF\n#define BAD 1 +\n"
                   "BEGIN { f(A, S, SELF, BAD, C); }"),
      "(call f (+ 2 1) \"x\" SELF BAD C);");
}

TEST(Defines, AnOperatorBesideTakesNoPartOfThem) {
  const std::string define = "#define M 2 + 3\n#define N -1\nBEGIN { ";
  EXPECT_EQ(with_defines(define + "f(M, 2 * (M), M + 1, M << 1, 4 - N, M == 5); }"),
            "(call f (+ 2 3) (* 2 (+ 2 3)) (+ (+ 2 3) 1) (<< (+ 2 3) 1) (- 4 (- 1)) (== (+ 2 3) 5));");
  for (const char* use : {"M * 2", "2 * M", "1 - M", "-M", "(uint8)M"})
    EXPECT_EQ(with_defines(define + "$x = " + use + "; }"),
              "'M' is `2 + 3`, of which C would take a part only here")
        << use;
}

TEST(Defines, TooMuchIsAnError) {
  std::string script = "#define A0 1\n";
  for (int i = 1; i <= 40; ++i)
    script += "#define A" + std::to_string(i) + " (A" + std::to_string(i - 1) + " + A" +
              std::to_string(i - 1) + ")\n";
  EXPECT_EQ(with_defines(script + "BEGIN { print(A40); }"), "the #defines expand to too much");
}

}  // namespace
}  // namespace uscope::lang
