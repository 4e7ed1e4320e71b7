#include "lang/compile.h"

#include <gtest/gtest.h>

#include "parsing.h"
#include "table_types.h"

namespace uscope::lang {
namespace {

struct Compiled {
  SourceSet sources;
  Diagnostics diagnostics;
  std::optional<TypedProgram> program;

  explicit Compiled(std::string script, const TypeSource& types = NoTypes(), CompileInputs inputs = {}) {
    sources.add("stdin", std::move(script));
    program = compile(sources, 0, inputs, types, diagnostics);
  }
  std::string errors() const { return diagnostics.render(sources, false); }
  // The type of a variable or map of the only probe.
  std::string type(const std::string& name) const {
    if (!program) return errors();
    if (name[0] == '@') {
      const MapInfo& map = program->maps.at(name);
      return (map.key ? "[" + map.key->spell() + "] " : "") + map.value.spell();
    }
    for (const TypedProbe& probe : program->probes) {
      for (const VariableInfo& variable : probe.variables) {
        if (variable.name == name) return variable.type.spell();
      }
    }
    return "no such variable";
  }
};

std::string type_of(const std::string& expression) {
  return Compiled("uprobe:./a:f { $a = (uint32)1; $b = (uint64)2; $c = (int32)3; $p = (uint8 *)arg0; $x = " +
                  expression + "; }")
      .type("$x");
}

TEST(Types, LiteralsAreAsSmallAsTheyCanBe) {
  EXPECT_EQ(type_of("1"), "int8");
  EXPECT_EQ(type_of("200"), "int16");
  EXPECT_EQ(type_of("40000"), "int32");
  EXPECT_EQ(type_of("5000000000"), "int64");
  EXPECT_EQ(type_of("0x8000000000000000"), "uint64");
  EXPECT_EQ(type_of("-200"), "int16");
  EXPECT_EQ(type_of("\"abc\""), "string[4]");
  EXPECT_EQ(type_of("true"), "bool");
}

TEST(Types, Operators) {
  EXPECT_EQ(type_of("$a + $a"), "uint64");
  EXPECT_EQ(type_of("$a + $c"), "int64");
  EXPECT_EQ(type_of("$a * 2"), "uint64");
  EXPECT_EQ(type_of("$b - 1"), "int64");
  EXPECT_EQ(type_of("$a < $c"), "bool");
  EXPECT_EQ(type_of("-$b"), "uint64");
  EXPECT_EQ(type_of("~$c"), "uint32");
  EXPECT_EQ(type_of("!$a"), "bool");
  EXPECT_EQ(type_of("$a == 1 ? $a : $c"), "int64");
  EXPECT_EQ(type_of("$p + 1"), "uint8 *");
  EXPECT_EQ(type_of("*$p"), "uint8");
  EXPECT_EQ(type_of("$p[2]"), "uint8");
  EXPECT_EQ(type_of("&$a"), "uint32 *");
}

TEST(Types, BuiltinsAndFunctions) {
  EXPECT_EQ(type_of("pid"), "uint32");
  EXPECT_EQ(type_of("pid()"), "uint32");
  EXPECT_EQ(type_of("comm"), "string[16]");
  EXPECT_EQ(type_of("nsecs"), "uint64");
  EXPECT_EQ(type_of("nsecs(monotonic)"), "uint64");
  EXPECT_EQ(type_of("ustack(perf, 3)"), "ustack");
  EXPECT_EQ(type_of("str(arg0)"), "string[1025]");
  EXPECT_EQ(type_of("str(arg0, 10)"), "string[11]");
  EXPECT_EQ(type_of("buf(arg0, 8)"), "buffer[8]");
  EXPECT_EQ(type_of("usym(arg0)"), "usym_t");
  EXPECT_EQ(type_of("ntop(1)"), "inet");
  EXPECT_EQ(type_of("bswap((uint16)1)"), "uint16");
  EXPECT_EQ(type_of("sizeof(uint32)"), "int8");
  EXPECT_EQ(type_of("reg(\"ip\")"), "uint64");
  EXPECT_EQ(type_of("(1, \"a\", (uint64)2)"), "(int8,string[2],uint64)");
  EXPECT_EQ(type_of("(a=1, b=\"x\").b"), "string[2]");
  EXPECT_EQ(type_of("((uint8[4])1)[0]"), "uint8");
}

TEST(Types, MapsLearnFromEveryProbe) {
  Compiled program(
      "BEGIN { print(@late); } END { @late = 1; @late = 70000; @k[tid, comm] = (uint8)1; @k[1, \"a\"] = 300; "
      "@c[1] = count(); @s = \"a\"; @s = \"abc\"; @n++; for ($kv : @k) { $kk = $kv.0.1; } $v = @c[1]; }");
  EXPECT_EQ(program.type("@late"), "int32");
  EXPECT_EQ(program.type("@k"), "[(uint32,string[16])] uint16");
  EXPECT_EQ(program.type("@c"), "[int8] count_t");
  EXPECT_EQ(program.type("@s"), "string[4]");
  EXPECT_EQ(program.type("@n"), "int64");
  EXPECT_EQ(program.type("$kk"), "string[16]");
  EXPECT_EQ(program.type("$v"), "uint64");
}

TEST(Types, AggregationParametersReachTheMap) {
  Compiled program("BEGIN { @h = hist(1, 3); @l = lhist(1, 0, 10, 2); @t = tseries(1, 1s, 5, \"max\"); }");
  ASSERT_TRUE(program.program) << program.errors();
  EXPECT_EQ(program.program->maps["@h"].hist_bits, 3u);
  EXPECT_EQ(program.program->maps["@l"].lhist_step, 2);
  EXPECT_EQ(program.program->maps["@t"].tseries_interval_ns, 1000000000u);
  EXPECT_EQ(program.program->maps["@t"].tseries_aggregation, "max");
}

TableTypes program_types() {
  TableTypes types;
  Type point = Type::structure("struct point", 8);
  types.structs["struct point"] = {"struct point", 8, 4, {{"x", Type::int32(), 0}, {"y", Type::int32(), 4}}};
  types.structs["struct shape"] = {"struct shape",
                                   32,
                                   8,
                                   {{"at", point, 0},
                                    {"next", Type::pointer(Type::structure("struct shape", 32)), 8},
                                    {"name", Type::array(Type::int8(), 8, 1), 16},
                                    {"flags", Type::uint32(), 24, 3, 5}}};
  types.constants["RED"] = {Type::enumeration("enum color", 4, false), 2};
  types.args["draw"] = {{"s", Type::pointer(Type::structure("struct shape", 32))}, {"n", Type::int32()}};
  types.args["erase"] = {{"s", Type::int32()}};
  types.locals_["uprobe:./a@a.c:3"] = {{"i", Type::int64()}};
  types.results["draw"] = Type::int32();
  types.globals["counter"] = Type::uint32();
  return types;
}

std::string with_debug_info(const std::string& expression, const std::string& probe = "uprobe:./a:draw") {
  TableTypes types = program_types();
  return Compiled(probe + " { $x = " + expression + "; }", types).type("$x");
}

TEST(Types, FromTheProgramsDebugInfo) {
  EXPECT_EQ(with_debug_info("args.n"), "int32");
  EXPECT_EQ(with_debug_info("args.s->at.x"), "int32");
  EXPECT_EQ(with_debug_info("args.s->next->next->name[2]"), "int8");
  EXPECT_EQ(with_debug_info("args.s.flags"), "uint32");
  EXPECT_EQ(with_debug_info("*args.s"), "struct shape");
  EXPECT_EQ(with_debug_info("((struct point *)arg0)->y"), "int32");
  EXPECT_EQ(with_debug_info("RED"), "enum color");
  EXPECT_EQ(with_debug_info("retval", "uretprobe:./a:draw"), "int32");
  EXPECT_EQ(with_debug_info("retval", "uretprobe:./a:unknown"), "uint64");
  EXPECT_EQ(with_debug_info("locals.i", "uprobe:./a@a.c:3"), "int64");
  EXPECT_EQ(with_debug_info("*uaddr(\"counter\")"), "uint32");
  EXPECT_EQ(with_debug_info("offsetof(struct shape, at.y)"), "int8");
}

TEST(Types, AttachPointsWithOtherArgumentsAreProbesOfTheirOwn) {
  TableTypes types;
  types.args["open"] = {{"name", Type::pointer(Type::int8())}};
  types.args["openat"] = {{"dir", Type::int32()}, {"name", Type::pointer(Type::int8())}};
  types.args["creat"] = {{"name", Type::pointer(Type::int8())}};
  Compiled mixed("uprobe:./a:open,uprobe:./a:openat,uprobe:./a:creat /args.name/ { @[args.name] = 1; }",
                 types);
  ASSERT_TRUE(mixed.program) << mixed.errors();
  ASSERT_EQ(mixed.program->probes.size(), 2u);
  EXPECT_EQ(mixed.program->probes[0].attach_points.size(), 2u);
  EXPECT_EQ(mixed.program->probes[1].attach_points[0].function, "openat");
  // Who does not look at them stays whole.
  Compiled whole("uprobe:./a:open,uprobe:./a:openat { @ = 1; }", types);
  ASSERT_TRUE(whole.program) << whole.errors();
  EXPECT_EQ(whole.program->probes.size(), 1u);
}

TEST(Types, AnAddressMayComeWithAndWithoutItsType) {
  TableTypes types;
  types.results["make"] = Type::pointer(Type::structure("struct shape", 32));
  Compiled made(
      "uretprobe:./a:make { @live[retval] = 1; @last = retval; } uprobe:./a:drop { delete(@live, arg0); "
      "@last = arg0; }",
      types);
  ASSERT_TRUE(made.program) << made.errors();
  EXPECT_EQ(made.type("@live"), "[uint64] int8");
  EXPECT_EQ(made.type("@last"), "uint64");
}

TEST(Compile, ExpandsProbesThroughTheMatcher) {
  CompileInputs inputs;
  inputs.matcher = [](const AttachSpec& probe, Diagnostics&) {
    std::vector<AttachSpec> out(2, probe);
    out[0].function = "f1";
    out[1].function = "f2";
    return ProbeMatches{out, "", ""};
  };
  Compiled program("uprobe:./a:f* { @[func] = count(); }", NoTypes(), inputs);
  ASSERT_TRUE(program.program) << program.errors();
  ASSERT_EQ(program.program->probes[0].attach_points.size(), 2u);
  EXPECT_EQ(program.program->probes[0].attach_points[1].function, "f2");
}

TEST(Compile, SaysWhatIsMissingAsTheSettingWants) {
  CompileInputs inputs;
  inputs.matcher = [](const AttachSpec& probe, Diagnostics&) {
    if (probe.kind == ProbeKind::kBegin || probe.function == "here") return ProbeMatches{{probe}, "", ""};
    bool is_glob = probe.function.find('*') != std::string::npos;
    return ProbeMatches{{}, is_glob ? "" : "No matches for " + probe.function + ".", "look elsewhere"};
  };
  std::string both = "uprobe:./a:here,uprobe:./a:gone { @ = 1; } BEGIN { @ = 2; }";
  EXPECT_NE(Compiled(both, NoTypes(), inputs).errors().find("stdin:1:17-32: ERROR: No matches for gone.\n"),
            std::string::npos);
  Compiled warned("config = { missing_probes = \"warn\" } " + both, NoTypes(), inputs);
  ASSERT_TRUE(warned.program);
  EXPECT_NE(warned.diagnostics.render(warned.sources).find("WARNING: No matches for gone. Skipping.\n"),
            std::string::npos);
  EXPECT_EQ(warned.program->probes[0].attach_points.size(), 1u);
  Compiled ignored("config = { missing_probes = \"ignore\" } uprobe:./a:gone { @ = 1; } BEGIN { @ = 2; }",
                   NoTypes(), inputs);
  ASSERT_TRUE(ignored.program);
  EXPECT_EQ(ignored.diagnostics.render(ignored.sources), "");
  EXPECT_EQ(ignored.program->probes.size(), 1u);
  EXPECT_TRUE(Compiled("uprobe:./a:here,uprobe:./a:g* { @ = 1; }", NoTypes(), inputs).program);
  EXPECT_NE(Compiled("uprobe:./a:g* { @ = 1; }", NoTypes(), inputs)
                .errors()
                .find("ERROR: Probe has no valid attach points."),
            std::string::npos);
}

TEST(Compile, ImportsOtherScripts) {
  CompileInputs inputs;
  inputs.loader = [](const std::string& path) -> std::optional<std::string> {
    if (path == "lib") return "import \"deep\"; macro twice(x) { x * two() }";
    if (path == "deep") return "import \"lib\"; macro two() { 2 }";
    return std::nullopt;
  };
  EXPECT_EQ(Compiled("import \"lib\"; BEGIN { $x = twice(5); }", NoTypes(), inputs).type("$x"), "int64");
  EXPECT_NE(Compiled("import \"none\"; BEGIN { }", NoTypes(), inputs).errors().find("Cannot import 'none'"),
            std::string::npos);
}

TEST(Compile, ScriptStructsMacrosAndFunctionsTogether) {
  Compiled program(
      "#define LIMIT 3\nstruct foo { int a : 4; struct foo *next; };\nenum e { A = 7 };\nmacro next(f) { "
      "f->next }\n"
      "fn add($a : uint64, $b : int32) : uint64 { return $a; }\n"
      "uprobe:./a:f { let $f : struct foo * = (struct foo *)arg0; $n = next($f); $a = next($n)->a; $s = "
      "add(1, 2); "
      "unroll(LIMIT) { @[A] = count(); } }");
  EXPECT_EQ(program.type("$n"), "struct foo *");
  EXPECT_EQ(program.type("$a"), "uint32");
  EXPECT_EQ(program.type("$s"), "uint64");
  EXPECT_EQ(program.type("@"), "[enum e] count_t");
}

struct Wrong {
  const char* script;
  const char* place;
  const char* message;
};

class TypeError : public testing::TestWithParam<Wrong> {};

TEST_P(TypeError, IsSaidWithItsPlace) {
  TableTypes types = program_types();
  Compiled program(GetParam().script, types);
  EXPECT_FALSE(program.program);
  std::string first = program.errors().substr(0, program.errors().find('\n'));
  EXPECT_EQ(first, std::string("stdin:") + GetParam().place + ": ERROR: " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, TypeError,
    testing::Values(
        Wrong{"BEGIN { foo }", "1:9-12", "Unknown identifier: 'foo'"},
        Wrong{"BEGIN { foo() }", "1:9-14", "Unknown function: 'foo'"},
        Wrong{"BEGIN { print($x) }", "1:15-17", "Undefined or undeclared variable: $x"},
        Wrong{"BEGIN { $x = 1; $x = \"a\"; }", "1:17-25",
              "Type mismatch for $x: trying to assign value of type 'string[2]' when variable already has a "
              "type 'int8'"},
        Wrong{"BEGIN { @x = 1; @x = \"a\"; }", "1:17-25",
              "Type mismatch for @x: trying to assign value of type 'string[2]' when map already has a type "
              "'int8'"},
        Wrong{"BEGIN { @x[1] = 1; @x[\"a\"] = 2; }", "1:20-27",
              "Argument mismatch for @x: trying to access with arguments: 'string[2]' when map expects "
              "arguments: 'int8'"},
        Wrong{"BEGIN { @x[1] = 1; @x = 2; }", "1:20-22",
              "@x used as a map without an explicit key (scalar map), previously used with an explicit key "
              "(non-scalar "
              "map)"},
        Wrong{"BEGIN { printf() }", "1:9-17", "printf() requires at least one argument (0 provided)"},
        Wrong{"BEGIN { printf(5) }", "1:9-18", "printf() expects a string literal (int provided)"},
        Wrong{"BEGIN { printf(\"%d\") }", "1:9-21",
              "not enough arguments for format string (0 supplied, 1 expected)"},
        Wrong{"BEGIN { printf(\"%d\", \"a\") }", "1:9-26",
              "unsupported format specifier for type 'string[2]': d"},
        Wrong{"BEGIN { @x = count(1); }", "1:14-22", "count() requires no arguments (1 provided)"},
        Wrong{"BEGIN { $x = count(); }", "1:14-21", "count() must be assigned directly to a map"},
        Wrong{"BEGIN { @x = lhist(1,10,3,1); }", "1:14-29",
              "lhist() min must be less than max (provided min 10 and max 3)"},
        Wrong{"BEGIN { @x = hist(1, 10); }", "1:14-25", "hist: bits 10 must be 0..5"},
        Wrong{"BEGIN { break; }", "1:9-15", "'break' statement is not allowed in a probe"},
        Wrong{"BEGIN { print(arg0) }", "1:15-19",
              "The arg0 builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes"},
        Wrong{"BEGIN { print(args.x) }", "1:15-19",
              "The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe "
              "probes (special "
              "used here)"},
        Wrong{"BEGIN { system(\"ls\") }", "1:9-21", "system() is an unsafe function being used in safe mode"},
        Wrong{"BEGIN { $x = (struct foo *)0; }", "1:15-27", "Cannot resolve unknown type \"struct foo\""},
        Wrong{"BEGIN { $x = \"a\" == 1 }", "1:14-22",
              "Type mismatch for '==': comparing string[2] with int8"},
        Wrong{"BEGIN { print(@x) }", "1:15-17", "Undefined map: @x"},
        Wrong{"BEGIN { clear(1) }", "1:15-16", "clear() expects a map argument"},
        Wrong{"BEGIN { $x = 1; $x.y }", "1:17-21", "Can not access field 'y' on expression of type 'int8'"},
        Wrong{"BEGIN { $x = (1,2); print($x.5) }", "1:27-31",
              "Invalid tuple index: 5. Found 2 elements in tuple."},
        Wrong{"BEGIN { let $x : int8 = 1000; }", "1:9-29",
              "Type mismatch for $x: trying to assign value of type 'int16' when variable already has a type "
              "'int8'"},
        Wrong{"BEGIN { unroll(0) { } }", "1:9-22", "unroll minimum value is 1"},
        Wrong{"BEGIN { unroll(1000) { } }", "1:9-25", "unroll maximum value is 100"},
        Wrong{"let @a = foo(5); BEGIN { }", "1:1-17", "Invalid bpf map type: foo"},
        Wrong{"BEGIN { @a = 1; for ($kv : @a) { } }", "1:28-30",
              "@a has no explicit keys (scalar map), and cannot be used for iteration"},
        Wrong{"BEGIN { $a = 1; let $a = 2; }", "1:17-23",
              "Variable $a was already declared. Variable shadowing is not allowed."},
        Wrong{"BEGIN { if (1) { $b = 2; } print($b); }", "1:34-36", "Undefined or undeclared variable: $b"},
        Wrong{"BEGIN { ustack(abc) }", "1:16-19",
              "Error parsing stack mode: ustack: Invalid value for stack_mode: valid values are bpftrace, "
              "raw, perf, and "
              "build_id."},
        Wrong{"BEGIN { exit(1,2) }", "1:9-18", "exit() takes up to one argument (2 provided)"},
        Wrong{"BEGIN { $x = !\"a\"; }", "1:14-18",
              "The ! operator can not be used on expressions of type 'string[2]'"},
        Wrong{"BEGIN { $x = 5; $x[0]; }", "1:17-22",
              "The array index operator [] can only be used on arrays, pointers, and tuples, found int8."},
        Wrong{"BEGIN { @a = hist(1); $x = @a; }", "1:23-30",
              "Value 'hist_t' cannot be assigned to a scratch variable."},
        Wrong{"BEGIN { @a = hist(1); @a = hist(2, 3); }", "1:28-38",
              "Different bits in a single hist unsupported"},
        Wrong{"uprobe:./a:draw { print(args.zz); }", "1:25-32", "Can't find function parameter zz"},
        Wrong{"uprobe:./a:draw { print(args.s->zz); }", "1:25-35",
              "Struct/union of type 'struct shape' does not contain a field named 'zz'"}));

}  // namespace
}  // namespace uscope::lang
