#include "lang/parser.h"

#include <gtest/gtest.h>

#include "parsing.h"

namespace uscope::lang {
namespace {

TEST(ParseExpression, PrecedenceFollowsC) {
  EXPECT_EQ(body("1 + 2 * 3;"), "(+ 1 (* 2 3));");
  EXPECT_EQ(body("(1 + 2) * 3;"), "(* (+ 1 2) 3);");
  EXPECT_EQ(body("1 - 2 - 3;"), "(- (- 1 2) 3);");
  EXPECT_EQ(body("$a || $b && $c | $d ^ $e & $f == $g < $h << $i + $j * $k;"),
            "(|| $a (&& $b (| $c (^ $d (& $e (== $f (< $g (<< $h (+ $i (* $j $k))))))))));");
  EXPECT_EQ(body("$a & $b == $c;"), "(& $a (== $b $c));");
}

TEST(ParseExpression, TernariesNestToTheRight) {
  EXPECT_EQ(body("$a ? 1 : $b ? 2 : 3;"), "(? $a 1 (? $b 2 3));");
  EXPECT_EQ(body("$a ?: 5;"), "(? $a - 5);");
}

TEST(ParseExpression, UnaryAndPostfix) {
  EXPECT_EQ(body("-$x.y; *$p.x; (*$p).x; !$a == $b; &$x; ~-1;"),
            "(- (. $x y));(* (. $p x));(. (* $p) x);(== (! $a) $b);(& $x);(~ (- 1));");
  EXPECT_EQ(body("$x++; --@m[1]; *$x++;"), "(_++ $x);(--_ (at @m 1));(* (_++ $x));");
  EXPECT_EQ(body("$x->y.z[1].0.1;"), "(.# (.# ([] (. (. $x y) z) 1) 0) 1);");
  EXPECT_EQ(body("$x - -1; $x -1;"), "(- $x (- 1));(- $x 1);");
}

TEST(ParseExpression, CastsAndParentheses) {
  EXPECT_EQ(body("(uint64)$x + 1;"), "(+ (cast uint64 $x) 1);");
  EXPECT_EQ(body("((struct foo *)arg0)->a;"), "(. (cast struct foo* arg0) a);");
  EXPECT_EQ(body("(struct foo **)arg0->a;"), "(cast struct foo** (. arg0 a));");
  EXPECT_EQ(body("(uint8[8])$x; (uint64[])$x; (string[4])$x;"),
            "(cast uint8[8] $x);(cast uint64[0] $x);(cast string[4] $x);");
  EXPECT_EQ(body("(foo)-1; (foo)(1);"), "(cast foo (- 1));(cast foo 1);");
  EXPECT_EQ(body("(pid) - 1; (arg0) * 2;"), "(- pid 1);(* arg0 2);");
  EXPECT_EQ(body("(foo) + 1; (foo);"), "(+ foo 1);foo;");
}

TEST(ParseExpression, TuplesAndRecords) {
  EXPECT_EQ(body("(); (1,); (1, 2,); (1, (2, 3));"), "(tuple);(tuple 1);(tuple 1 2);(tuple 1 (tuple 2 3));");
  EXPECT_EQ(body("(a=1, b=(c=2));"), "(record a=1 b=(record c=2));");
}

TEST(ParseExpression, MapsKeysAndCalls) {
  EXPECT_EQ(body("@; @[1]; @a[1, \"x\"]; @a[(1, 2)]; @a[1][2];"),
            "@;(at @ 1);(at @a (tuple 1 \"x\"));(at @a (tuple 1 2));([] (at @a 1) 2);");
  EXPECT_EQ(body("f(); f(1, g(2));"), "(call f);(call f 1 (call g 2));");
}

TEST(ParseExpression, SizeofOffsetofAndTypes) {
  EXPECT_EQ(body("sizeof(struct foo *); sizeof($x); sizeof(uint8); sizeof(foo);"),
            "(sizeof <struct foo*>);(sizeof $x);(sizeof <uint8>);(sizeof foo);");
  EXPECT_EQ(body("offsetof(struct foo, a.b); offsetof($x, a);"),
            "(offsetof <struct foo> a.b);(offsetof $x a);");
  EXPECT_EQ(body("typeinfo($x).full_ty; comptime (1 == 1);"),
            "(. (typeinfo $x) full_ty);(comptime (== 1 1));");
}

TEST(ParseExpression, BlocksAndIfsAreExpressions) {
  EXPECT_EQ(body("$x = { let $y = 1; $y };"), "(= $x {(let $y - 1);$y});");
  EXPECT_EQ(body("$x = if ($a) { 1 } else { 2 };"), "(= $x (if $a {1} {2}));");
}

TEST(ParseStatement, Assignments) {
  EXPECT_EQ(body("$x = 1; $x += 2; @m[1] <<= 3; @ = 4; _ = 5;"),
            "(= $x 1);(+= $x 2);(<<= (at @m 1) 3);(= @ 4);(discard 5);");
  EXPECT_EQ(body("let $a; let $b : uint8; let $c : struct foo * = 0; let $d = 1;"),
            "(let $a - -);(let $b uint8 -);(let $c struct foo* 0);(let $d - 1);");
}

TEST(ParseStatement, ControlFlow) {
  EXPECT_EQ(body("if ($a) { 1 } else if $b { 2; } else { 3; 4 } $x = 1;"),
            "(if $a {1} (if $b {2;} {3;4}));(= $x 1);");
  EXPECT_EQ(body("while ($x < 5) { $x++; } unroll(3) { break; } return 1;"),
            "(while (< $x 5) {(_++ $x);});(unroll 3 {(break -);});(return 1);");
  EXPECT_EQ(body("for ($kv : @m) { continue; } for $i : 0..ncpus { } for ($i : $a..(1+2)) { }"),
            "(for $kv @m {(continue -);});(for $i 0..ncpus {});(for $i $a..(+ 1 2) {});");
}

TEST(ParseStatement, ABlockEndsItsStatement) {
  EXPECT_EQ(body("if (1) { 2 } --$x;"), "(if 1 {2} -);(--_ $x);");
  EXPECT_EQ(body("{ print(1); } *$p;"), "{(call print 1);};(* $p);");
  EXPECT_EQ(body("if (1) { 2 }; $y = 1"), "(if 1 {2} -);(= $y 1);");
}

TEST(ParseProgram, Preamble) {
  EXPECT_EQ(
      Parsed("#!/usr/bin/env uscope\n#include <a.h>\nstruct foo { int a; };\nenum e { A, B }\n"
             "config = { max_map_keys = 0x10; stack_mode=perf; license=\"GPL\"; lazy=true }\nimport \"x\";\n"
             "let @m = lruhash(5);\nmacro m($a, b, @c) { b }\nfn f($a : int32) : void { return; }")
          .tree(),
      "#!/usr/bin/env uscope(c #include <a.h>)(c struct foo { int a; })(c enum e { A, B })"
      "(config max_map_keys=0:16 stack_mode=3:perf license=2:GPL lazy=1:true)(import \"x\")"
      "(map @m lruhash 5)(macro m $a b @c {b})(fn f $a:int32 void {(return -);})");
}

TEST(ParseProgram, CDefinitionsMayNestCarryAttributesAndContinueLines) {
  EXPECT_EQ(Parsed("#define A 1 \\\n + 2\nunion u { struct { int b; } c; } __attribute__((packed));\n"
                   "typedef struct { int x; } t;\nstruct fwd;\nBEGIN { }")
                .tree(),
            "(c #define A 1 \\\n + 2)(c union u { struct { int b; } c; } __attribute__((packed)))"
            "(c typedef struct { int x; } t)(c struct fwd)(probe BEGIN {})");
}

TEST(ParseProgram, AttachPointsAreTakenAsWritten) {
  EXPECT_EQ(Parsed("uprobe:/bin/a*:\"x y\",u:./a:b+0x10, usdt:/x:p:n /pid == 1/ { }").tree(),
            "(probe uprobe:/bin/a*:\"x y\" u:./a:b+0x10 usdt:/x:p:n /(== pid 1)/ {})");
  EXPECT_EQ(Parsed("uprobe:./a:add(int, char const*)+4,END { }").tree(),
            "(probe uprobe:./a:add(int, char const*)+4 END {})");
  EXPECT_EQ(Parsed("u:./a:operator<<,name=u:$1:A::B{1}").tree(),
            "(probe u:./a:operator<< name=u:$1:A::B {1;})");
  EXPECT_EQ(Parsed("uprobe:./a:f // why\n{ }").tree(), "(probe uprobe:./a:f {})");
}

TEST(ParseProgram, APredicateEndsAtTheSlashBeforeTheBody) {
  EXPECT_EQ(Parsed("BEGIN /1 / 2 == 3/ { }").tree(), "(probe BEGIN /(== (/ 1 2) 3)/ {})");
  EXPECT_EQ(Parsed("BEGIN /(1 / 2)/ { }").tree(), "(probe BEGIN /(/ 1 2)/ {})");
  EXPECT_EQ(Parsed("BEGIN /@a[1 / 2]/\n{ }").tree(), "(probe BEGIN /(at @a (/ 1 2))/ {})");
}

TEST(ParseProgram, AShebangIsTheFirstLineOrNone) {
  for (const char* text : {" #!/usr/bin/uscope \\\nBEGIN { }", "struct a { int b; };\n#!x\nBEGIN { }"})
    EXPECT_NE(Parsed(text).tree().find("a #! line must be the script's first"), std::string::npos) << text;
}

TEST(ParseProgram, NestingIsBounded) {
  std::string deep(5000, '('), blocks(5000, '{'), minus(5000, '-'), chain = "1", fields = "$x", ifs;
  for (int i = 0; i < 5000; ++i) {
    chain += "+1";
    fields += ".a";
    ifs += "if 1 { } else ";
  }
  EXPECT_NE(body(deep + "1").find("nested too deeply"), std::string::npos);
  EXPECT_NE(body(blocks).find("nested too deeply"), std::string::npos);
  EXPECT_NE(body(minus.substr(0, 1) + " " + std::string(5000, '!') + "1").find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(body(chain).find("expression too long"), std::string::npos);
  EXPECT_NE(body(fields).find("expression too long"), std::string::npos);
  EXPECT_NE(body(ifs).find("nested too deeply"), std::string::npos);
  // Long chains in nested blocks add up.
  std::string tail, nested = "1";
  for (int i = 0; i < 300; ++i) tail += "+1";
  for (int i = 0; i < 10; ++i) nested = "({" + nested + "})" + tail;
  EXPECT_NE(body(nested).find("expression too long"), std::string::npos);
}

TEST(ParseProgram, WhatIsDeepButReasonableParses) {
  std::string text = "1";
  for (int i = 0; i < 100; ++i) text = "(" + text + ")";
  EXPECT_EQ(body(text + ";"), "1;");
  std::string ifs = "$x = 1;";
  for (int i = 0; i < 50; ++i) ifs = "if ($y) { " + ifs + " }";
  EXPECT_NE(body(ifs).find("(= $x 1)"), std::string::npos);
}

}  // namespace
}  // namespace uscope::lang
