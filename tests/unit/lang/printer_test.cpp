#include "lang/printer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "parsing.h"

namespace uscope::lang {
namespace {

std::string format(const std::string& text) { return Parsed(text).formatted(); }

// What one statement is printed as.
std::string line(const std::string& statement) {
  std::string out = format("BEGIN { " + statement + " }");
  std::string head = "BEGIN\n{\n  ", tail = "\n}\n";
  if (!out.starts_with(head) || !out.ends_with(tail)) return out;
  return out.substr(head.size(), out.size() - head.size() - tail.size());
}

TEST(Printer, NestedOperationsGetParenthesesComparisonsDoNot) {
  EXPECT_EQ(line("1+2*3;"), "1 + (2 * 3);");
  EXPECT_EQ(line("$a==$b&&$c==$d|2;"), "$a == $b && ($c == $d | 2);");
  EXPECT_EQ(line("$a&&$b&&$c||$d;"), "($a && $b && $c) || $d;");
  EXPECT_EQ(line("$a < ($b < $c);"), "$a < ($b < $c);");
  EXPECT_EQ(line("-(-$x);"), "-(-$x);");
  EXPECT_EQ(line("(uint8) -1;"), "(uint8)(-1);");
  EXPECT_EQ(line("((struct foo *)$x)->y;"), "((struct foo*)$x).y;");
  EXPECT_EQ(line("(1).0;"), "(1).0;");
}

TEST(Printer, SpellingOfLiteralsIsKept) {
  EXPECT_EQ(line("f(0x10, 1_000, 100ms, 'a', \"\\x41\\n\\0\");"),
            "f(0x10, 1_000, 100ms, 'a', \"A\\n\\x00\");");
}

TEST(Printer, Statements) {
  EXPECT_EQ(
      format(
          "BEGIN{if($x==1){print(1);}else if $y {2}else{@a++}for($i:0..5){}for($k:@m){exit()}unroll(3){}}"),
      "BEGIN\n{\n  if ($x == 1) {\n    print(1);\n  } else if $y {\n    2\n  } else {\n    @a++\n  }\n"
      "  for $i : 0..5 {}\n  for $k : @m {\n    exit()\n  }\n  unroll (3) {}\n}\n");
}

TEST(Printer, LongListsAreFilledFromTheEnd) {
  EXPECT_EQ(
      line("printf(\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa %d %d\", $bbbbbbbbbbbbbbbbbbb, "
           "$cccccccccccccccccccc);"),
      "printf(\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa %d %d\",\n"
      "         $bbbbbbbbbbbbbbbbbbb, $cccccccccccccccccccc);");
}

TEST(Printer, BlockValuesKeepTheStatementsIndentation) {
  EXPECT_EQ(line("$x = { print(1); 1 };"), "$x = {\n    print(1);\n    1\n  };");
  EXPECT_EQ(line("$x = { 1 };"), "$x = { 1 };");
}

TEST(Printer, CommentsStayWithTheirStatements) {
  std::string text =
      "// first\n\n/* second */\nBEGIN\n{\n  // own\n  $a = 1; // behind\n\n  $b = 2; /* also */\n  // "
      "last\n}\n\n"
      "// between\nEND\n{\n  // only this\n}\n// end\n";
  EXPECT_EQ(format(text), text);
}

TEST(Printer, CommentsInsideExpressionsMoveBehindTheStatement) {
  EXPECT_EQ(line("$x = 1 + /* why */ 2;"), "$x = 1 + 2; /* why */");
  EXPECT_EQ(format("BEGIN {\n$x = f(1, // one\n2); // two\n}"),
            "BEGIN\n{\n  $x = f(1, 2); // one\n  // two\n}\n");
}

TEST(Printer, TheProgramsParts) {
  EXPECT_EQ(
      format("#include <a>\nstruct foo { int a; }\nconfig={a=1;b=\"x\"}\nlet @m=hash(5)\nmacro x(a){a}\n"
             "fn f($a:int32):void{1}\nx=BEGIN,END /pid==1/{1}"),
      "#include <a>\nstruct foo { int a; };\nconfig = {\n  a = 1;\n  b = \"x\";\n}\nlet @m = hash(5);\n"
      "macro x(a)\n{\n  a\n}\nfn f($a : int32) : void\n{\n  1;\n}\nx=BEGIN,\nEND\n/pid == 1/\n{\n  1;\n}\n");
}

// Accepted scripts: parse, print, parse again: the same tree; print again: the same text.
void expect_round_trip(const std::string& text, const std::string& name) {
  Parsed first(text, name);
  ASSERT_TRUE(first.program) << first.errors();
  std::string printed = first.formatted();
  Parsed second(printed, name + " (printed)");
  ASSERT_TRUE(second.program) << second.errors() << printed;
  EXPECT_EQ(first.tree(), second.tree()) << printed;
  EXPECT_EQ(printed, second.formatted());
  EXPECT_EQ(first.program->comments.size(), second.program->comments.size()) << printed;
}

TEST(RoundTrip, EveryShippedScript) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(USCOPE_FIXTURES).parent_path() / "scripts")) {
    if (entry.path().extension() != ".bt") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    SCOPED_TRACE(entry.path().filename().string());
    expect_round_trip(text.str(), entry.path().filename().string());
    ++count;
  }
  EXPECT_GE(count, 8);
}

class Accepted : public testing::TestWithParam<const char*> {};

TEST_P(Accepted, RoundTrips) { expect_round_trip(GetParam(), "table"); }

INSTANTIATE_TEST_SUITE_P(
    Table, Accepted,
    testing::Values(
        "BEGIN { @x[1, \"a\"] = (1, (2,), ()); }", "BEGIN { $x = (a=1, b=(c=\"x\")).b.c; }",
        "BEGIN { $a < ($b < $c); ($a == $b) == $c; $a == ($b == $c); $a - ($b - $c); ($a && $b) && $c; $a && "
        "($b && $c); }",
        "BEGIN { $a = ($b ? 1 : 2) ? 3 : 4; $c = $d ?: ($e ? 5 : 6); $f = -(-$g); $h = !($i == 1); }",
        "BEGIN { *$p.x; (*$p).x; *(uint8*)$x; ((uint8)$x)[0]; (-1)[0]; (@a)[1]; @a[1][2]; (1).0; (1.5).x; }",
        "BEGIN { if (1) { if (2) { 3 } } else if (4) { while (5) { 6 } } else { 7 } }",
        "BEGIN { $x = { { { { $a = 1; 2 } } } }; $y = if $z { 1 } else if $w { 2; 3 } else { 4 }; }",
        "BEGIN { for ($i : 0..(1 + 2)) { } for ($i : -1..5) { } for ($i : $a..ncpus) { break; } }",
        "BEGIN { f({ 1 }, { print(2); }, if ($a) { 1 } else { 2 }); ({ 1 }) + 2; (if (1) { 2 }) + 3; }",
        "BEGIN { sizeof(struct a *); sizeof($x); offsetof(struct a, b.c); typeof($x); let $y : typeof($x) = "
        "1; }",
        "BEGIN { 0x1F; 017; 1e3; 5ull; 1h; 'a'; '\\n'; 1.5; true; \"\\\"\\\\\\x01\"; $1; $#; }",
        "BEGIN { comptime (1 == 1); if comptime ($x) { 1 } typeinfo($x).full_ty; import \"a\"; _ = 5; }",
        "u:a:b,ur:\"x y\":c,U:a:b:c,i:s:1,p:hz:99,uprobe:/bin/f@a.c:3:4,uprobe:a:cpp:\"A::B(int, char)\" { }",
        "BEGIN /1 / 2/ { } END /@a[1] / (2 / 3) == $x/ { }",
        "#define A 1 \\\n  + 2\nstruct a { int b : 3; /* c */ };\nBEGIN { }",
        "// a\nconfig = { // b\n a = 1; // c\n // d\n}\nBEGIN { } // e\n/* f\n g */ END { /* h */ }",
        "BEGIN { if (1) { // a\n } else { // b\n } // c\n /* d */ $x = 1; /* e */ /* f */ }",
        "struct a { int x; }; enum b { C }; /* d */ BEGIN { 1 } END { 2 } // e\n",
        "#!/usr/bin/uscope\r\r\nBEGIN { }",
        "config = { a = 1; b = 2; /* c */ } BEGIN { $x = 1; 2 /* d */ } /* cut off",
        "BEGIN { $x = { // a\n 1 }; f({ /* b */ 2 }); for ($k : @m) { /* c */ } }"));

}  // namespace
}  // namespace uscope::lang
