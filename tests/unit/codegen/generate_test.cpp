// What is generated, construct by construct, as text; and what is refused.
#include "codegen/generate.h"

#include <gtest/gtest.h>

#include "unit/codegen/generating.h"

namespace uscope::codegen {
namespace {

TEST(Generate, APredicateSkipsTheBody) {
  EXPECT_EQ(Generated("uprobe:/a:f /arg0 == 3/ { @ = 1; }").code().substr(0, 78),
            "0: r6 = r1\n1: r0 = *(u64*)(r6 + 112)\n2: if r0 != 3 goto 37\n"
            "3: r0 = 1\n4: *(u8*)");
}

TEST(Generate, ArithmeticKeepsTheLeftSideInASlot) {
  EXPECT_EQ(body("$x = arg0 * (arg1 - 5);"),
            "1: *(u64*)(r10 - 24) = 0\n2: r0 = *(u64*)(r6 + 112)\n3: *(u64*)(r10 - 32) = r0\n"
            "4: r0 = *(u64*)(r6 + 104)\n5: r1 = 5\n6: r0 -= r1\n7: r1 = r0\n8: r0 = *(u64*)(r10 - 32)\n"
            "9: r0 *= r1\n10: *(u64*)(r10 - 24) = r0\n");
}

TEST(Generate, UnsignedDivisionIsTheInstructionSignedIsNot) {
  EXPECT_NE(body("$x = arg0 / 3;").find("r0 /= r1"), std::string::npos);
  EXPECT_EQ(body("$x = arg0 / 3;").find("r0 = -r0"), std::string::npos);
  EXPECT_NE(body("$x = (int64)arg0 / (int64)arg1;").find("r0 = -r0"), std::string::npos);
}

TEST(Generate, ComparisonsFollowTheSigns) {
  EXPECT_NE(body("if (arg0 < 5) { return; }").find("if r0 >= 5"), std::string::npos);
  EXPECT_NE(body("if ((int64)arg0 < 5) { return; }").find("if r0 s>= 5"), std::string::npos);
}

TEST(Generate, CastsCutAndExtend) {
  EXPECT_NE(body("$x = (int16)arg0;").find("r0 <<= 48\n4: r0 s>>= 48"), std::string::npos);
  EXPECT_NE(body("$x = (uint8)arg0;").find("r0 <<= 56\n4: r0 >>= 56"), std::string::npos);
}

TEST(Generate, ACountIsOneAtomicAddition) {
  Generated script("uprobe:/a:f { @ = count(); }");
  ASSERT_TRUE(script.result) << script.error();
  std::string code = script.code();
  EXPECT_NE(code.find("call map_lookup_elem\n"), std::string::npos);
  EXPECT_NE(code.find("r1 = 1\n"), std::string::npos);
  EXPECT_NE(code.find("lock *(u64*)(r0) += r1\n"), std::string::npos);
  const MapSpec& map = script.result->program.maps.at(2);
  EXPECT_EQ(map.kind, MapKind::PerCpuHash);
  EXPECT_EQ(map.max_entries, 1u);
  ASSERT_EQ(script.result->plan.maps.size(), 1u);
  EXPECT_EQ(script.result->plan.maps[0].name, "@");
  EXPECT_EQ(script.result->plan.maps[0].value.kind, event::Layout::Kind::Count);
  EXPECT_TRUE(script.result->plan.maps[0].is_per_cpu);
}

TEST(Generate, ScratchMemoryIsOnlyClaimedWhereItIsNeeded) {
  Generated small("uprobe:/a:f { @[comm] = count(); }"), large("uprobe:/a:f { @[str(arg0)] = count(); }");
  EXPECT_EQ(small.code().find("map scratch"), std::string::npos);
  std::string code = large.code();
  EXPECT_NE(code.find("r1 = map scratch"), std::string::npos);
  EXPECT_NE(code.find("r1 = xchg *(u64*)(r0), r1"), std::string::npos);
  EXPECT_NE(code.find("*(u64*)(r9) = 0\n"), std::string::npos);  // given back
}

TEST(Generate, AHistogramNeedsNoScratchMemory) {
  std::string code = Generated("uprobe:/a:f { @ = hist(arg0); }").code();
  EXPECT_EQ(code.find("map scratch"), std::string::npos);
  EXPECT_NE(code.find("map zeroes"), std::string::npos);
}

TEST(Generate, StacksAreShownAsAsked) {
  Generated script("uprobe:/a:f { @[ustack(perf, 3), pid] = count(); printf(\"%s\", ustack(raw)); }");
  ASSERT_TRUE(script.result) << script.error();
  const event::Plan& plan = script.result->plan;
  const event::Layout& stack = plan.maps[0].key->fields[0].layout;
  EXPECT_EQ(stack.kind, event::Layout::Kind::UserStack);
  EXPECT_EQ(stack.stack_style, event::Layout::StackStyle::Perf);
  EXPECT_EQ(stack.size, 16u + 3 * 8);
  EXPECT_EQ(plan.formats[0].arguments.fields[0].layout.stack_style, event::Layout::StackStyle::Raw);
}

TEST(Generate, PrintfIsOneRecordWithItsLayout) {
  Generated script("uprobe:/a:f { printf(\"%d %s %d\", pid, comm, arg0); }");
  ASSERT_TRUE(script.result) << script.error();
  EXPECT_NE(script.code().find("call ringbuf_output"), std::string::npos);
  ASSERT_EQ(script.result->plan.formats.size(), 1u);
  const event::Layout& arguments = script.result->plan.formats[0].arguments;
  ASSERT_EQ(arguments.fields.size(), 3u);
  EXPECT_EQ(arguments.fields[0].offset, 0u);
  EXPECT_EQ(arguments.fields[1].offset, 4u);
  EXPECT_EQ(arguments.fields[1].layout.size, 16u);
  EXPECT_EQ(arguments.fields[2].offset, 24u);
  EXPECT_EQ(arguments.size, 32u);
}

TEST(Generate, WhatEndProbesReportHasNumbersOfItsOwn) {
  Generated made(
      R"(uprobe:/a:f { printf("a"); print(1); } end { printf("b"); print(2); print(3); } begin { print(4); })");
  ASSERT_TRUE(made.result) << made.error();
  ASSERT_EQ(made.result->end_reports.size(), 1u);
  const ReportNumbers& end = made.result->end_reports.front();
  EXPECT_EQ(end.formats, 1u);
  EXPECT_EQ(made.result->plan.formats[end.first_format].text, "b");
  EXPECT_EQ(end.first_value, 1u);
  EXPECT_EQ(end.values, 2u);
}

TEST(Generate, SeveralAttachPointsShareACode) {
  Generated script("uprobe:/a:f,uprobe:/a:g,uretprobe:/a:f { @[probe] = count(); } BEGIN { }");
  ASSERT_TRUE(script.result) << script.error();
  ASSERT_EQ(script.result->program.codes.size(), 3u);
  ASSERT_EQ(script.result->uses.size(), 4u);
  EXPECT_EQ(script.result->uses[0].code, script.result->uses[1].code);
  EXPECT_NE(script.result->uses[0].code, script.result->uses[2].code);
  EXPECT_EQ(script.result->uses[3].cookie, 3u);
  EXPECT_NE(script.code().find("call get_attach_cookie"), std::string::npos);
  ASSERT_EQ(script.result->initial_entries.size(), 4u);
  const auto& value = script.result->initial_entries[1].value;
  EXPECT_EQ(std::string(value.begin(), value.begin() + 11), "uprobe:/a:g");
  EXPECT_EQ(script.result->program.codes[2].kind, CodeKind::RunOnce);
}

TEST(Generate, NothingIsLeftBehindAReturn) {
  EXPECT_EQ(body("return; @ = 1; printf(\"never\");"), "1: goto 2\n");
}

class TablePlaces final : public ArgumentPlaces {
 public:
  Result<ArgumentPlace> argument(const lang::AttachSpec& probe, std::string_view name) const override {
    if (name != "p") return fail("no place for " + std::string(name));
    ArgumentPlace place;
    place.register_offset = probe.function == "g" ? 104 : 112;
    place.steps = {{PlaceStep::Kind::Add, -16, 8}, {PlaceStep::Kind::Load, 0, 4}};
    return place;
  }
  Result<ArgumentPlace> local(const lang::AttachSpec&, std::string_view name) const override {
    return fail("no place for " + std::string(name));
  }
};

class ArgumentTypes final : public lang::TypeSource {
 public:
  std::optional<lang::StructLayout> find_struct(std::string_view) const override { return std::nullopt; }
  std::optional<lang::Type> find_type(std::string_view) const override { return std::nullopt; }
  std::vector<lang::Constant> find_constants(std::string_view) const override { return {}; }
  std::vector<lang::Enumerator> enumerators(std::string_view) const override { return {}; }
  std::optional<std::vector<lang::NamedValue>> arguments(const lang::AttachSpec&) const override {
    return std::vector<lang::NamedValue>{{"p", lang::Type::int32()}, {"q", lang::Type::int32()}};
  }
  std::optional<std::vector<lang::NamedValue>> locals(const lang::AttachSpec&) const override {
    return std::nullopt;
  }
  std::optional<lang::Type> return_type(const lang::AttachSpec&) const override { return std::nullopt; }
  std::optional<lang::Type> global(const lang::AttachSpec&, std::string_view) const override {
    return std::nullopt;
  }
};

TEST(Generate, ArgumentsAreWhereTheDebugInfoSays) {
  TablePlaces places;
  ArgumentTypes types;
  Inputs inputs;
  inputs.places = &places;
  inputs.types = &types;
  Generated script("uprobe:/a:f,uprobe:/a:g,uprobe:/a:h { @ = args.p; }", inputs);
  ASSERT_TRUE(script.result) << script.error();
  // f and h have it in the same place.
  EXPECT_EQ(script.result->program.codes.size(), 2u);
  EXPECT_EQ(script.result->uses[0].code, script.result->uses[2].code);
  EXPECT_NE(script.code(0).find("r0 = *(u64*)(r6 + 112)\n2: r1 = -16\n3: r0 += r1\n"), std::string::npos);
  EXPECT_NE(script.code(1).find("r0 = *(u64*)(r6 + 104)"), std::string::npos);
  EXPECT_NE(script.code(0).find("call probe_read_user"), std::string::npos);
  EXPECT_EQ(Generated("uprobe:/a:f { @ = args.q; }", inputs).error(), "script:1:19-25: no place for q");
}

// f returns a number, g a struct in two registers, h one in memory.
class ResultPlaces final : public ArgumentPlaces {
 public:
  Result<ArgumentPlace> argument(const lang::AttachSpec&, std::string_view) const override {
    return fail("no place");
  }
  Result<ArgumentPlace> local(const lang::AttachSpec&, std::string_view) const override {
    return fail("no place");
  }
  Result<std::vector<ArgumentPlace>> results(const lang::AttachSpec& probe) const override {
    ArgumentPlace place = result_register();
    if (probe.function == "k") return fail("is nowhere");
    if (probe.function == "h") place.is_address = true;
    if (probe.function == "g") {
      ArgumentPlace second;
      second.register_offset = 96;
      place.parts = {{result_register(), 8}, {second, 8}};
    }
    return std::vector<ArgumentPlace>{place};
  }
};

class ResultTypes final : public lang::TypeSource {
 public:
  std::optional<lang::StructLayout> find_struct(std::string_view name) const override {
    lang::StructLayout layout{std::string(name), 16, 8, {}};
    layout.fields = {{"x", lang::Type::int64(), 0}, {"y", lang::Type::int32(), 8}};
    return layout;
  }
  std::optional<lang::Type> find_type(std::string_view) const override { return std::nullopt; }
  std::vector<lang::Constant> find_constants(std::string_view) const override { return {}; }
  std::vector<lang::Enumerator> enumerators(std::string_view) const override { return {}; }
  std::optional<std::vector<lang::NamedValue>> arguments(const lang::AttachSpec&) const override {
    return std::nullopt;
  }
  std::optional<std::vector<lang::NamedValue>> locals(const lang::AttachSpec&) const override {
    return std::nullopt;
  }
  std::optional<lang::Type> return_type(const lang::AttachSpec& probe) const override {
    if (probe.function == "f" || probe.function == "k") return lang::Type::int32();
    if (probe.function == "u") return lang::Type::integer(8, false);
    return lang::Type::structure("struct pair", 16);
  }
  std::optional<lang::Type> global(const lang::AttachSpec&, std::string_view) const override {
    return std::nullopt;
  }
};

TEST(Generate, ResultsAreWhereTheirTypesPutThem) {
  ResultPlaces places;
  ResultTypes types;
  Inputs inputs;
  inputs.places = &places;
  inputs.types = &types;
  Generated registers("uretprobe:/a:g { @ = retval.y; }", inputs);
  ASSERT_TRUE(registers.result) << registers.error();
  EXPECT_NE(registers.code().find("r0 = *(u64*)(r6 + 96)"), std::string::npos);
  EXPECT_EQ(registers.code().find("probe_read_user"), std::string::npos);
  Generated memory("uretprobe:/a:h { @ = retval.y; }", inputs);
  ASSERT_TRUE(memory.result) << memory.error();
  EXPECT_NE(memory.code().find("probe_read_user"), std::string::npos);
  // Each kind of result has a code of its own.
  Generated both("uretprobe:/a:f,uretprobe:/a:u,uretprobe:/a:f { @ = retval; }", inputs);
  ASSERT_TRUE(both.result) << both.error();
  EXPECT_EQ(both.result->program.codes.size(), 2u);
  EXPECT_EQ(Generated("uretprobe:/a:k { @ = retval; }", inputs).error(),
            "script:1:22-28: `retval` is nowhere");
  EXPECT_EQ(Generated("uretprobe:/a:f,uretprobe:/a:k { @ = retval; }", inputs).error(),
            "script:1:37-43: `retval` of k is nowhere");
}

struct Refused {
  const char* script;
  const char* error;
};

class Unsupported : public testing::TestWithParam<Refused> {};

TEST_P(Unsupported, IsSaidWithItsPlace) { EXPECT_EQ(Generated(GetParam().script).error(), GetParam().error); }

INSTANTIATE_TEST_SUITE_P(
    Table, Unsupported,
    testing::Values(Refused{"kprobe:f { @ = 1; }", "script:1:1-9: kprobe probes are not supported yet"},
                    Refused{"BEGIN { @a[1] = count(); $b = &@a[1]; }",
                            "script:1:31-37: the address of a count_t is not supported yet"}));

}  // namespace
}  // namespace uscope::codegen
