// Wrong scripts and what is said about them: place, words, marker.
#include <gtest/gtest.h>

#include "parsing.h"

namespace uscope::lang {
namespace {

struct Wrong {
  const char* script;
  const char* place;    // line:from-to
  const char* message;  // after "syntax: "
};

class SyntaxError : public testing::TestWithParam<Wrong> {};

TEST_P(SyntaxError, IsSaidWithItsPlace) {
  Parsed parsed(GetParam().script);
  ASSERT_FALSE(parsed.program) << parsed.tree();
  std::string first = parsed.errors().substr(0, parsed.errors().find('\n'));
  EXPECT_EQ(first, std::string("stdin:") + GetParam().place + ": ERROR: syntax: " + GetParam().message);
  EXPECT_EQ(parsed.diagnostics.error_count(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Table, SyntaxError,
    testing::Values(
        Wrong{"BEGIN { ", "1:9-9", "expected '}'"},
        Wrong{"BEGIN { $x = ; }", "1:14-15", "expected expression"},
        Wrong{"BEGIN { $x = 1 $y = 2; }", "1:16-18", "expected ';'"},
        Wrong{"BEGIN { print(1 }", "1:17-18", "expected ')'"},
        Wrong{"BEGIN { if { } }", "1:16-17", "expected '{'"},
        Wrong{"BEGIN { $x = \"abc }", "1:20-20", "unterminated string"},
        Wrong{"BEGIN { $x = 08; }", "1:14-16", "invalid trailing bytes: 08"},
        Wrong{"BEGIN { $x = 99999999999999999999; }", "1:14-34",
              "overflow error, maximum value is 18446744073709551615: 99999999999999999999"},
        Wrong{"BEGIN { $x = 1x; }", "1:15-16", "invalid integer suffix 'x'"},
        Wrong{"BEGIN { @x[ = 1; }", "1:13-14", "expected expression"},
        Wrong{"BEGIN { $0 }", "1:9-11", "param $0 is out of integer range [1, 9223372036854775807]"},
        Wrong{"BEGIN /1 { }", "1:10-11", "expected '/' to close predicate"},
        Wrong{"BEGIN", "1:6-6", "expected '{'"}, Wrong{"{ }", "1:1-2", "expected attach point"},
        Wrong{"BEGIN { ` }", "1:9-10", "expected expression"},
        Wrong{"BEGIN { 1 = 2; }", "1:11-12", "expected ';'"},
        Wrong{"BEGIN { $x.y = 2; }", "1:9-17",
              "Tuples and records are immutable once created. Consider creating a new value and assigning it "
              "instead."},
        Wrong{"BEGIN { @b[1][2] = 4; }", "1:9-21", "invalid assignment target"},
        Wrong{"BEGIN { 1++; }", "1:10-12", "increment/decrement requires a variable or map"},
        Wrong{"BEGIN { let x = 1; }", "1:13-14", "expected variable after 'let'"},
        Wrong{"BEGIN { let $x : = 1; }", "1:18-19", "expected type name"},
        Wrong{"BEGIN { for ($x : 1) { } }", "1:22-23", "expected map or range in for loop"},
        Wrong{"BEGIN { for (x : @y) { } }", "1:14-15", "expected variable in for loop"},
        Wrong{"config = { x } BEGIN { }", "1:14-15", "expected '='"},
        Wrong{"config = { x=1 y=2 } BEGIN { }", "1:16-17", "expected ';'"},
        Wrong{"config = { e=-1 } BEGIN { }", "1:14-15", "expected string, int, boolean, or ident"},
        Wrong{"let @a = hash(); BEGIN { }", "1:15-16",
              "expected positive integer for map declaration max entries"},
        Wrong{"let @a = 5; BEGIN { }", "1:10-11", "expected map type name"},
        Wrong{"macro foo { } BEGIN { }", "1:11-12", "expected '('"},
        Wrong{"macro foo(1) { 1 } BEGIN { }", "1:11-12",
              "expected macro argument ($var, @map, or identifier)"},
        Wrong{"fn foo($x) : void { } BEGIN { }", "1:10-11", "expected ':'"},
        Wrong{"import foo; BEGIN { }", "1:8-11", "expected string after 'import'"},
        Wrong{"import \"foo\" BEGIN { }", "1:14-19", "expected ';' after import"},
        Wrong{"BEGIN { $x = 1;; }", "1:16-17", "expected expression"},
        Wrong{"BEGIN { \"\\q\" }", "1:11-12", "invalid escape character '\\q'"},
        Wrong{"BEGIN { \"\\xzz\" }", "1:12-14", "invalid hex escape sequence"},
        Wrong{"BEGIN { \"\\400\" }", "1:10-14", "octal escape sequence out of range '\\400'"},
        Wrong{"BEGIN { offsetof(struct foo) }", "1:28-29", "expected ','"},
        Wrong{"BEGIN { $x->1 }", "1:13-14", "expected field name after '->'"},
        Wrong{"BEGIN { $x[] }", "1:12-13", "expected expression"},
        Wrong{"BEGIN { @x[] }", "1:12-13", "expected expression"},
        Wrong{"BEGIN { (a=1, 2) }", "1:15-16", "expected identifier"},
        Wrong{"BEGIN { $ }", "1:9-10", "expected identifier after '$'"},
        Wrong{"BEGIN { if (1) { 2 } else 3 }", "1:27-28", "expected '{' or 'if' after 'else'"},
        Wrong{"config = {} config = {} BEGIN { }", "1:13-19", "duplicate config block"},
        Wrong{"BEGIN { } config = {}", "1:11-17", "config must appear before probes and functions"},
        Wrong{"BEGIN { } import \"a\";", "1:11-17", "root imports must appear before probes and functions"},
        Wrong{"BEGIN { } struct foo { int a; }", "1:11-32",
              "C definitions must appear before probes and functions"},
        Wrong{"uprobe:/bin/x:a/pid == 1/ { }", "1:21-22", "expected '{'"},
        Wrong{"uprobe:a:b , ,BEGIN { }", "1:14-15", "expected attach point"},
        Wrong{"uprobe:\"abc { }", "1:16-16", "unterminated string"}));

}  // namespace
}  // namespace uscope::lang
