// What the code generator makes of scripts, given to this kernel's verifier, and run.
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <chrono>
#include <cstring>
#include <map>

#include "codegen/disassemble.h"
#include "codegen/generate.h"
#include "engine/kernel/cpus.h"
#include "event/aggregate.h"
#include "lang/compile.h"
#include "unit/engine/kernel/target.h"

namespace uscope::engine::kernel {
namespace {

using namespace std::chrono_literals;

struct Script {
  lang::SourceSet sources;
  lang::Diagnostics diagnostics;
  std::optional<lang::TypedProgram> typed;
  Result<codegen::Compiled> compiled = fail("not compiled");

  explicit Script(const std::string& text, codegen::Loops loops = codegen::Loops::Walked) {
    sources.add("script", text);
    lang::CompileInputs inputs;
    inputs.allow_unsafe = true;
    typed = lang::compile(sources, 0, inputs, lang::NoTypes(), diagnostics);
    if (!typed) {
      compiled = fail(diagnostics.render(sources));
      return;
    }
    codegen::Inputs given;
    given.sources = &sources;
    given.loops = loops;
    given.possible_cpus = uint32_t(possible_cpus().value().size());
    compiled = codegen::generate(*typed, given);
  }
};

class Accepted : public testing::TestWithParam<const char*> {};

TEST_P(Accepted, ByTheVerifier) {
  SKIP_WITHOUT_UPROBES();
  Script script(GetParam());
  ASSERT_TRUE(script.compiled) << GetParam() << "\n" << script.compiled.error().message();
  KernelEngine engine;
  auto loaded = engine.load(script.compiled->program);
  ASSERT_TRUE(loaded) << GetParam() << "\n"
                      << loaded.error().message() << "\n"
                      << codegen::disassemble(script.compiled->program);
  for (const codegen::InitialEntry& entry : script.compiled->initial_entries)
    EXPECT_TRUE(engine.set_entry(entry.map, entry.key, entry.value));
}

INSTANTIATE_TEST_SUITE_P(
    Scripts, Accepted,
    testing::Values(
        "BEGIN { @m[1] = 1; for ($kv : @m) { @n[$kv.1] = $kv.0; if ($kv.0 == 3) { break; } exit(); } }",
        "uprobe:/a:f { @m[arg0, comm] = count(); $n = 0; for ($kv : @m) { $n += $kv.1; for ($i : 0..4) { "
        "for ($b : @m) { if ($b.1 > $n) { return; } printf(\"%s %d\", $b.0.1, $i); } } } print($n); }",
        "uprobe:/a:f { @m[str(arg0)] = str(arg1); for ($kv : @m) { print($kv); $x = $kv.1; } print(len(@m)); "
        "}",
        "profile:hz:9 { @[tid] = hist(nsecs); print(len(@)); print(len(ustack)); }", "BEGIN { }",
        "uprobe:/a:f { @ = count(); }", "uprobe:/a:f { @[pid] = count(); }",
        "uprobe:/a:f /pid == 42 && arg0 > 3/ { @[tid, comm] = sum(arg1); }",
        "uprobe:/a:f { @[func] = count(); @[func] = count(); }",
        "uprobe:/a:f,uprobe:/a:g { @[probe] = count(); }", "uretprobe:/a:f { @ = hist(retval); }",
        "uprobe:/a:f { @ = hist(arg0, 3); }", "uprobe:/a:f { @ = lhist(arg0, 0, 100, 10); }",
        "uprobe:/a:f { @a = min(arg0); @b = max(arg0); @c = avg(arg0); @d = stats(arg0); }",
        "uprobe:/a:f { @start[tid] = nsecs; } uretprobe:/a:f /@start[tid]/ { @us = hist((nsecs - "
        "@start[tid]) / "
        "1000); delete(@start[tid]); }",
        "uprobe:/a:f { printf(\"%d %s %s\\n\", pid, comm, str(arg0)); }",
        "uprobe:/a:f { printf(\"%s %s %s %s\\n\", str(arg0), str(arg1), str(arg2), str(arg3)); }",
        "uprobe:/a:f { printf(\"%s\\n\", str(arg0, arg1)); }", "uprobe:/a:f { @[str(arg0)] = count(); }",
        "uprobe:/a:f { @x = str(arg0); printf(\"%s\", @x); $a = @x; print($a); }",
        "uprobe:/a:f { @[ustack] = count(); }", "uprobe:/a:f { @[ustack(5), comm] = count(); }",
        "uprobe:/a:f { print(ustack); printf(\"%s\", ustack(3)); }",
        "uprobe:/a:f { $x = 1; $y = $x + 2 * 3 - arg0 / 7 % 5; $x += $y; $x <<= 2; $x >>= 1; $x++; --$x; "
        "print($x); }",
        "uprobe:/a:f { $x = (int64)arg0; print($x / 3); print($x % 3); print(-$x); print(~$x); print(!$x); }",
        "uprobe:/a:f { print((int8)arg0); print((uint16)arg1); print((bool)arg2); }",
        "uprobe:/a:f { if (arg0 == 1) { @ = 1; } else if (arg0 > 2 || arg1 < 3) { @ = 2; } else { @ = 3; } }",
        "uprobe:/a:f { @ = arg0 > 5 ? \"big\" : \"small\"; $n = arg0 ? 1 : 2; print($n); }",
        "uprobe:/a:f { $i = 0; while ($i < 10) { $i++; if ($i == 5) { continue; } if ($i == 8) { break; } @ "
        "= "
        "$i; } }",
        "uprobe:/a:f { $i = 0; while ($i < arg0) { $i++; @[$i] = count(); } }",
        "uprobe:/a:f { while (rand % 5) { while (rand % 3) { @++; } } }",
        "uprobe:/a:f { $p = arg0; while ($p != 0) { $p = *(uint64*)$p; @[str($p)] = hist($p); } }",
        "uprobe:/a:f { @a = tseries(arg0, 1s, 5); @b[pid] = tseries(arg0, 1s, 5, \"max\"); @c = "
        "tseries(arg0, 1s, "
        "20, \"avg\"); }",
        "uprobe:/a:f { unroll(5) { printf(\"x\\n\"); } }",
        "uprobe:/a:f { for ($i : 0..10) { @[$i] = $i * 2; } }",
        "uprobe:/a:f { for ($i : 0..5) { for ($j : 0..5) { @[$i, $j] = count(); } } }",
        "uprobe:/a:f { @++; @x[pid]--; ++@x[1]; @y += 5; @y -= 2; @y *= 3; @y |= 1; $a = @x[1]++; print($a); "
        "}",
        "uprobe:/a:f { @c = count(); if (@c > 5) { exit(); } $s = @c; print($s); }",
        "uprobe:/a:f { @a = avg(arg0); @m = min(arg0); print((int64)@a); printf(\"%d\", @m); }",
        "BEGIN { printf(\"hello\\n\"); exit(3); printf(\"never\\n\"); }",
        "BEGIN { @x[1, \"a\"] = (1, \"b\", 3); $t = @x[1, \"a\"]; print($t); print($t.1); print($t.2); }",
        "BEGIN { $t = (1, (2, \"abc\")); print($t.1.1); @ = $t; }",
        "BEGIN { @a = 1; print(@a); clear(@a); zero(@a); @b[1] = count(); print(@b, 5, 2); print(@b[1]); }",
        "BEGIN { @a[1] = 1; if (has_key(@a, 1)) { print(1); } delete(@a, 1); delete(@a[2]); }",
        "BEGIN { time(\"%H\"); time(); print(strftime(\"%H\", nsecs)); errorf(\"e %d\", 1); warnf(\"w\"); }",
        "interval:s:1 { print(@a); @a[cpu] = count(); }", "profile:hz:99 { @[comm] = count(); }",
        "uprobe:/a:f { if (comm == \"abc\") { @ = 1; } if (comm != str(arg0)) { @ = 2; } }",
        "uprobe:/a:f /strncmp(str(arg0), \"abc\", 3) == 0/ { @ = strlen(str(arg0)); }",
        "uprobe:/a:f /strcontains(str(arg0), \"needle\")/ { @ = count(); }",
        "uprobe:/a:f { @ = strstr(str(arg0, 64), \"a\"); }",
        "struct foo { int a; char b; long c; char name[16]; struct foo *next; int bits:3; int more:5; int "
        "v[4]; } "
        "uprobe:/a:f { $p = (struct foo*)arg0; print($p->a); print($p->next->next->c); print($p->name); "
        "print($p->more); print($p->v[2]); print($p->v[arg1]); @[$p->name] = count(); }",
        "struct foo { int a; int b; } uprobe:/a:f { $s = *(struct foo*)arg0; print($s.b); @ = $s; "
        "print(@.b); }",
        "uprobe:/a:f { $p = (int32*)arg0; print(*$p); print($p[3]); print(*($p + 2)); print($p[arg1]); }",
        "uprobe:/a:f { printf(\"%r\", buf(arg0, 16)); printf(\"%rx\", buf(arg0, arg1)); @[buf(arg0, 4)] = "
        "count(); }",
        "uprobe:/a:f { join(arg0); join(arg0, \",\"); }",
        "uprobe:/a:f { print(reg(\"ip\")); print(arg7); print(usym(arg0)); print(func); print(probe); }",
        "uprobe:/a:f { print(uid); print(gid); print(username); print(elapsed); print(cpu); print(rand); "
        "print(ncpus); print(nsecs(monotonic)); print(cgroup); print(numaid); }",
        "uprobe:/a:f { signal(\"TERM\"); signal(10); }",
        "uprobe:/a:f { assert(arg0 > 3, \"too small\"); @ = 1; }",
        "uprobe:/a:f { print(ntop(arg0)); print(strerror(2)); print(bswap((uint32)arg0)); }",
        "fn twice($a : int64) : int64 { return $a * 2; } BEGIN { print(twice(4)); $x = twice(twice(1)); "
        "print($x); }",
        "BEGIN { let $x : uint8; print($x); let $s : string[10] = \"abc\"; print($s); $s = \"de\"; "
        "print($s); }",
        "BEGIN { $a = \"1\"; $b = \"22\"; $c = \"333\"; @[$a, $b, $c] = 1; @[\"a\", \"b\", \"c\"] = 2; }",
        "let @m = lruhash(10); let @n = percpuhash(5); BEGIN { @m[1] = 2; @n[1] = 3; print(@n[1]); @n[1]++; "
        "}",
        "uprobe:/a:f { return; @ = 1; }", "uprobe:/a:f { if (arg0) { return; } else { exit(); } @ = 1; }",
        "uprobe:/a:f { $k = (arg0, comm); @[$k] = count(); @[1, \"x\"] = count(); }",
        "uprobe:/a:f { @a[arg0, arg1, arg2, arg3, comm, pid, tid] = sum(arg4); }",
        "uprobe:/a:f { $x = { $y = arg0 + 1; $y * 2 }; print($x); }",
        "END { print(\"bye\"); print((1, 2)); print(true); }"));

bool have_may_goto() {
  utsname name{};
  unsigned major = 0, minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 9);
}

TEST(Generated, LoopsOfAnyLengthWhereTheKernelCounts) {
  SKIP_WITHOUT_UPROBES();
  if (!have_may_goto()) GTEST_SKIP() << "may_goto came with Linux 6.9";
  for (const char* text :
       {"uprobe:/a:f { $i = 0; while ($i < arg0) { $i++; @[$i] = count(); } }",
        "uprobe:/a:f { while (rand % 5) { while (rand % 3) { @++; } } }",
        "uprobe:/a:f { $p = arg0; while ($p != 0) { $p = *(uint64*)$p; @[str($p)] = hist($p); } }",
        "uprobe:/a:f { for ($i : 0..100000) { @[$i] = $i; } }",
        "uprobe:/a:f { $i = 5; while ($i < 100000) { $i++; if ($i == 99999) { @ = $i; } } }"}) {
    Script script(text, codegen::Loops::MayGoto);
    ASSERT_TRUE(script.compiled) << script.compiled.error().message();
    KernelEngine engine;
    auto loaded = engine.load(script.compiled->program);
    EXPECT_TRUE(loaded) << loaded.error().message() << codegen::disassemble(script.compiled->program);
  }
}

// Runs BEGIN and gives its records.
std::vector<std::vector<uint8_t>> records_of(const std::string& text) {
  std::vector<std::vector<uint8_t>> out;
  Script script(text);
  EXPECT_TRUE(script.compiled) << script.compiled.error().message();
  if (!script.compiled) return out;
  KernelEngine engine;
  auto loaded = engine.load(script.compiled->program);
  EXPECT_TRUE(loaded) << loaded.error().message() << codegen::disassemble(script.compiled->program);
  if (!loaded) return out;
  EXPECT_TRUE(engine.run(0));
  auto polled = engine.poll(100ms, [&](Bytes record) { out.emplace_back(record.begin(), record.end()); });
  EXPECT_TRUE(polled);
  return out;
}

// The values of print() of an integer expression, in order.
std::vector<int64_t> printed(const std::string& body) {
  std::vector<int64_t> out;
  for (const auto& record : records_of("BEGIN { " + body + " }")) {
    if (ByteReader(record).u32() == uint32_t(event::RecordKind::HelperError)) continue;
    EXPECT_EQ(ByteReader(record).u32(), uint32_t(event::RecordKind::PrintValue));
    if (record.size() < 16) continue;
    out.push_back(int64_t(ByteReader(record, 8).u64()));
  }
  return out;
}

using Numbers = std::vector<int64_t>;

TEST(Generated, ArithmeticHasTheSignsOfC) {
  SKIP_WITHOUT_UPROBES();
  EXPECT_EQ(
      printed(
          "$a = (int64)-7; $b = (int64)2; print($a / $b); print($a % $b); print($a * $b); print($a >> 1);"),
      (Numbers{-3, -1, -14, -4}));
  EXPECT_EQ(
      printed(
          "$a = (uint64)7; $z = (uint64)0; print($a / $z); print($a % $z); print($a << 2); print($a ^ 2);"),
      (Numbers{1, 1, 28, 5}));  // dividing by 0 gives 1, and a warning
  EXPECT_EQ(printed("$a = 300; print((int64)(uint8)$a); print((int64)(int8)200); print((int64)(int16)-1);"),
            (Numbers{44, -56, -1}));
  EXPECT_EQ(
      printed("$a = (int64)-1; $b = (uint64)1; print((int64)($a < 0)); print((int64)($b > 0 && $a < 5)); "
              "print((int64)(!$a || $b == 2)); print(-$a); print(~$a);"),
      (Numbers{1, 1, 0, 1, 0}));
}

TEST(Generated, LoopsAndVariables) {
  SKIP_WITHOUT_UPROBES();
  EXPECT_EQ(printed("$i = 0; $s = 0; while ($i < 100) { $i++; if ($i % 2 == 0) { continue; } if ($i > 50) { "
                    "break; } $s "
                    "+= $i; } print((int64)$s);"),
            (Numbers{625}));
  EXPECT_EQ(printed("$s = 0; for ($i : 3..7) { for ($j : 0..$i) { $s += $j; } } print((int64)$s);"),
            (Numbers{3 + 6 + 10 + 15}));
  EXPECT_EQ(
      printed(
          "$s = 0; unroll(4) { $s += 5; } print((int64)$s); $s--; print((int64)$s++); print((int64)++$s);"),
      (Numbers{20, 19, 21}));
}

TEST(Generated, MapsKeepWhatTheyAreGiven) {
  SKIP_WITHOUT_UPROBES();
  EXPECT_EQ(printed("@a = (int64)5; @a += 3; @a *= 2; @b[1, \"x\"] = (int64)7; @b[2, \"yy\"] = (int64)9; "
                    "print(@b[1, \"x\"]); "
                    "print(@b[2, \"yy\"]); print(@b[1, \"yy\"]); $x = @a; print($x); delete(@b[1, \"x\"]); "
                    "print(@b[1, \"x\"]);"),
            (Numbers{7, 9, 0, 16, 0}));
  EXPECT_EQ(printed("@c = count(); @c = count(); $x = (int64)@c; print($x); @s = sum(-5); @s = sum(2); "
                    "print((int64)@s); @m = "
                    "max(3); @m = max(9); @m = max(4); print((int64)@m); @n = min(-3); @n = min(5); "
                    "print((int64)@n); @v = "
                    "avg(10); @v = avg(20); print((int64)@v);"),
            (Numbers{2, -3, 9, -3, 15}));
}

TEST(Generated, StringsCompareAsTexts) {
  SKIP_WITHOUT_UPROBES();
  EXPECT_EQ(
      printed("$a = \"hello\"; print((int64)($a == \"hello\")); print((int64)($a == \"hell\")); "
              "print((int64)($a != "
              "\"hello!\")); print((int64)strncmp($a, \"help\", 3)); print((int64)strncmp($a, \"help\", 4)); "
              "print((int64)strcontains($a, \"ell\")); print((int64)strcontains($a, \"elk\")); "
              "print((int64)strlen($a));"),
      (Numbers{1, 0, 1, 0, 1, 1, 0, 5}));
}

// The merged value of the map's only entry, as words.
std::vector<uint64_t> words_of(Engine& engine, const event::MapPlan& map) {
  std::vector<uint64_t> out;
  EXPECT_TRUE(engine.for_each_entry(map.program_map, [&](const MapEntry& entry) {
    std::vector<uint8_t> merged = event::merge_copies(map.value, entry.values);
    ByteReader reader(merged);
    while (reader.remaining() >= 8) out.push_back(reader.u64());
  }));
  return out;
}

TEST(Generated, ProbesAProgram) {
  SKIP_WITHOUT_UPROBES();
  Target target;
  Script script(
      "uprobe:/a:work /arg0 != 4/ { @c = count(); @s[arg1] = sum(arg0); @h = hist(arg0); @l = lhist(arg0, 2, "
      "8, 3); "
      "@m = max(arg0); @a = avg(arg0); printf(\"%d %d\", arg0, arg1); @k[pid, comm, func] = count(); }");
  ASSERT_TRUE(script.compiled) << script.compiled.error().message();
  const event::Plan& plan = script.compiled->plan;
  KernelEngine engine;
  auto loaded = engine.load(script.compiled->program);
  ASSERT_TRUE(loaded) << loaded.error().message();
  auto attached = engine.attach({user_probe("work")});
  ASSERT_TRUE(attached) << attached.error().message();
  ASSERT_TRUE(attached->failures.empty());
  target.tell('w');
  std::map<std::string, const event::MapPlan*> maps;
  for (const event::MapPlan& map : plan.maps) maps[map.name] = &map;
  EXPECT_EQ(words_of(engine, *maps["@c"]), (std::vector<uint64_t>{9}));
  EXPECT_EQ(words_of(engine, *maps["@s"]), (std::vector<uint64_t>{41}));
  EXPECT_EQ(words_of(engine, *maps["@m"]), (std::vector<uint64_t>{9, 1}));
  EXPECT_EQ(words_of(engine, *maps["@a"]), (std::vector<uint64_t>{41, 9}));
  EXPECT_EQ(words_of(engine, *maps["@l"]), (std::vector<uint64_t>{2, 2, 3, 2}));
  EXPECT_EQ(words_of(engine, *maps["@k"]), (std::vector<uint64_t>{9}));
  std::vector<uint64_t> buckets(event::hist_buckets(0));
  for (int64_t i : {0, 1, 2, 3, 5, 6, 7, 8, 9}) buckets[event::bucket_of_hist(i, 0)]++;
  EXPECT_EQ(words_of(engine, *maps["@h"]), buckets);
  std::vector<uint64_t> firsts;
  ASSERT_TRUE(engine.poll(200ms, [&](Bytes record) {
    EXPECT_EQ(ByteReader(record).u32(), uint32_t(event::RecordKind::Printf));
    firsts.push_back(ByteReader(record, 8).u64());
    EXPECT_EQ(ByteReader(record, 16).u64(), 7u);
  }));
  EXPECT_EQ(firsts, (std::vector<uint64_t>{0, 1, 2, 3, 5, 6, 7, 8, 9}));
  EXPECT_EQ(engine.lost(), 0u);
}

TEST(Generated, SeriesKeepTheNewestOrTheWhole) {
  SKIP_WITHOUT_UPROBES();
  Script script(
      "BEGIN { @a = tseries(3, 1000s, 1); @a = tseries(5, 1000s, 1); @b = tseries(3, 1000s, 1, \"sum\"); @b "
      "= "
      "tseries(5, 1000s, 1, \"sum\"); @c = tseries(3, 1000s, 1, \"min\"); @c = tseries(5, 1000s, 1, "
      "\"min\"); }");
  ASSERT_TRUE(script.compiled) << script.compiled.error().message();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(script.compiled->program));
  ASSERT_TRUE(engine.run(0));
  const event::Plan& plan = script.compiled->plan;
  EXPECT_EQ(words_of(engine, plan.maps[0]).at(0), 5u);
  EXPECT_EQ(words_of(engine, plan.maps[1]).at(0), 8u);
  EXPECT_EQ(words_of(engine, plan.maps[1]).at(1), 2u);
  EXPECT_EQ(words_of(engine, plan.maps[2]).at(0), 3u);
}

TEST(Generated, HistogramsUseTheReadersBuckets) {
  SKIP_WITHOUT_UPROBES();
  for (uint32_t bits : {0u, 1u, 3u, 5u}) {
    for (int64_t value : {int64_t(-5), int64_t(0), int64_t(1), int64_t(2), int64_t(7), int64_t(31),
                          int64_t(32), int64_t(33), int64_t(1000), int64_t(4294967296), INT64_MAX}) {
      Script script("BEGIN { $v = (int64)" + std::to_string(value) + "; @ = hist($v, " +
                    std::to_string(bits) + "); }");
      ASSERT_TRUE(script.compiled) << script.compiled.error().message();
      KernelEngine engine;
      ASSERT_TRUE(engine.load(script.compiled->program));
      ASSERT_TRUE(engine.run(0));
      std::vector<uint64_t> expected(event::hist_buckets(bits));
      expected[event::bucket_of_hist(value, bits)] = 1;
      EXPECT_EQ(words_of(engine, script.compiled->plan.maps[0]), expected) << value << " with " << bits;
    }
  }
}

}  // namespace
}  // namespace uscope::engine::kernel
