// Probes that stand behind a function's first instruction: the script sees the call as if they stood on it,
// and that instruction's bytes are nobody's. Planned, built and run in the test's own process.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "codegen/pairing.h"
#include "unit/engine/inproc/traced.h"

// Each is called with seven arguments, the last one on the stack, and returns the first plus the last.
asm(R"(
  .pushsection .text
  .macro sample name
  .balign 64, 0xcc
  .globl behind_\name, behind_\name\()_end
behind_\name:
  .endm
  .macro sample_end name
behind_\name\()_end:
  .balign 64, 0xcc
  .endm

  sample push
  push %rbx
  mov %rdi, %rbx
  mov 16(%rsp), %rax
  add %rbx, %rax
  pop %rbx
  ret
  sample_end push

  sample push_r12
  push %r12
  lea (%rdi), %r12
  mov 16(%rsp), %rax
  add %r12, %rax
  pop %r12
  ret
  sample_end push_r12

  sample sub
  sub $24, %rsp
  mov %rdi, 8(%rsp)
  mov 32(%rsp), %rax
  add 8(%rsp), %rax
  add $24, %rsp
  ret
  sample_end sub

  sample sub_more
  sub $0x1008, %rsp
  mov %rdi, 8(%rsp)
  mov 0x1010(%rsp), %rax
  add 8(%rsp), %rax
  add $0x1008, %rsp
  ret
  sample_end sub_more

  sample marked_push
  endbr64
  push %rbx
  mov 16(%rsp), %rax
  add %rdi, %rax
  pop %rbx
  ret
  sample_end marked_push

  sample marked_cmp
  endbr64
  cmp $1000000, %rdi
  jae 1f
  mov 8(%rsp), %rax
  add %rdi, %rax
  ret
1:
  ud2
  sample_end marked_cmp

  sample nop
  .byte 0x0f, 0x1f, 0x44, 0, 0
  mov 8(%rsp), %rax
  add %rdi, %rax
  ret
  sample_end nop

  sample cmp
  cmp $1000000, %rdi
  jae 1f
  mov 8(%rsp), %rax
  add %rdi, %rax
  ret
1:
  ud2
  sample_end cmp

  sample test
  test %rdi, %rdi
  js 1f
  jz 1f
  mov %rdi, %rax
  add 8(%rsp), %rax
  ret
1:
  ud2
  sample_end test

  sample way
  test %rdi, %rdi
  js 1f
  jz 2f
  mov 8(%rsp), %rax
  add %rdi, %rax
1:
  ret
2:
  xor %eax, %eax
  jmp 1b
  sample_end way

  sample cmp_data
  cmpl $7, behind_seven(%rip)
  jne 1f
  mov 8(%rsp), %rax
  add %rdi, %rax
  ret
1:
  ud2
  sample_end cmp_data

  sample zero
  xor %eax, %eax
  jnz 1f
  jc 1f
  add %rdi, %rax
  add 8(%rsp), %rax
  ret
1:
  ud2
  sample_end zero

  sample move
  mov %rdi, %rax
  add 8(%rsp), %rax
  nop
  ret
  sample_end move

  sample constant
  mov $0, %eax
  lea (%rax,%rdi), %rax
  add 8(%rsp), %rax
  ret
  sample_end constant

  sample load
  mov (%rsi), %rax
  mov %rdi, %rax
  add 8(%rsp), %rax
  ret
  sample_end load

  .popsection
  .pushsection .data
behind_seven:
  .long 7
  .popsection

  .pushsection .text
  .globl behind_call, behind_called
# behind_call(function, where to note rsp at its entry): calls it with 1000, arguments that can be read, and 42.
behind_call:
  push %rbp
  mov %rsp, %rbp
  push %rbx
  push $0
  push %rdi
  mov %rdi, %rax
  mov %rsi, %rbx
  mov $1000, %edi
  lea behind_seven(%rip), %rsi
  mov $20, %edx
  mov $30, %ecx
  mov $40, %r8d
  mov $50, %r9d
  push $42
  lea -8(%rsp), %r10
  mov %r10, (%rbx)
  mov $0x1234, %r10d
  xchg %rax, %r11
  mov $0x77, %eax
  call *%r11
behind_called:
  mov -8(%rbp), %rbx
  leave
  ret
  .popsection
)");

extern "C" {
uint64_t behind_call(const void* function, uint64_t* sp);
extern const uint8_t behind_called[];
}
#define SAMPLE(name) extern "C" const uint8_t behind_##name[], behind_##name##_end[];
SAMPLE(push)
SAMPLE(push_r12)
SAMPLE(sub)
SAMPLE(sub_more)
SAMPLE(marked_push)
SAMPLE(marked_cmp)
SAMPLE(nop)
SAMPLE(cmp)
SAMPLE(test)
SAMPLE(way)
SAMPLE(cmp_data)
SAMPLE(zero)
SAMPLE(move)
SAMPLE(constant)
SAMPLE(load)
#undef SAMPLE

namespace uscope::engine::inproc {
namespace {

struct Sample {
  std::string_view name;
  const uint8_t *begin, *end;
  unsigned first;      // how long what stays of it is
  bool stays;          // for a script that reads arguments only
  bool stays_for_all;  // for one that reads every register
};

const Sample kSamples[] = {
    {"push", behind_push, behind_push_end, 1, true, true},
    {"push_r12", behind_push_r12, behind_push_r12_end, 2, true, true},
    {"sub", behind_sub, behind_sub_end, 4, true, true},
    {"sub_more", behind_sub_more, behind_sub_more_end, 7, true, true},
    {"marked_push", behind_marked_push, behind_marked_push_end, 5, true, true},
    {"marked_cmp", behind_marked_cmp, behind_marked_cmp_end, 11, true, true},
    {"nop", behind_nop, behind_nop_end, 5, true, true},
    {"cmp", behind_cmp, behind_cmp_end, 7, true, true},
    {"test", behind_test, behind_test_end, 3, true, true},
    {"way", behind_way, behind_way_end, 3, true, true},
    {"cmp_data", behind_cmp_data, behind_cmp_data_end, 7, true, true},
    {"zero", behind_zero, behind_zero_end, 2, true, false},
    {"move", behind_move, behind_move_end, 3, true, false},
    {"constant", behind_constant, behind_constant_end, 5, true, false},
    {"load", behind_load, behind_load_end, 3, false, false},
};

class SampleText : public TextFacts {
 public:
  std::optional<ImageAddr> address_of(FileOffset offset) override { return ImageAddr{offset.value}; }
  std::optional<FunctionFacts> function_at(ImageAddr address) override {
    for (const Sample& sample : kSamples) {
      const x86::CodeRange code{uint64_t(sample.begin), Bytes(sample.begin, sample.end)};
      if (!code.contains(address.value)) continue;
      FunctionFacts facts;
      facts.code.parts.push_back(code);
      return facts;
    }
    return std::nullopt;
  }
  std::vector<x86::CodeRange> text() override {
    return {{uint64_t(behind_push), Bytes(behind_push, behind_load_end)}};
  }
  std::vector<Filler> filler_near(ImageAddr, uint64_t, uint64_t) override { return {}; }
};

SiteRequest entry_of(const Sample& sample, const Traced& traced) {
  SiteRequest site{ImageAddr{uint64_t(sample.begin)}};
  site.read = traced.process.code().read_at_entry(0);
  return site;
}

bool covers_entry(const std::vector<Patch>& patches, const Sample& sample) {
  return std::ranges::any_of(patches,
                             [&](const Patch& patch) { return patch.contains({uint64_t(sample.begin)}); });
}

TEST(BehindEntry, TheCallIsSeenAsItWasBefore) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.name);
    Traced traced(
        "uprobe:/a:f { @ = count(); @a = sum(arg0); @c = sum(arg2); @f = sum(arg5); @sp = sum(reg(\"sp\")); "
        "@ip = "
        "sum(reg(\"ip\")); @g = sum(*(uint64*)(reg(\"sp\") + 8)); @from = sum(*(uint64*)reg(\"sp\")); }");
    SampleText facts;
    const SiteRequest site = entry_of(sample, traced);
    const auto patches = traced.process.patch_as_planned(facts, std::span(&site, 1));
    ASSERT_EQ(patches.size(), 1u);
    EXPECT_EQ(covers_entry(patches, sample), !sample.stays);
    EXPECT_EQ(patches[0].address.value, uint64_t(sample.begin) + (sample.stays ? sample.first : 0));
    uint64_t sp = 0;
    EXPECT_EQ(behind_call(sample.begin, &sp), 1042u);
    EXPECT_EQ(behind_call(sample.begin, &sp), 1042u);
    traced.process.unpatch();
    EXPECT_EQ(behind_call(sample.begin, &sp), 1042u);
    EXPECT_EQ(traced.total("@"), 2u);
    EXPECT_EQ(traced.total("@a"), 2000u);
    EXPECT_EQ(traced.total("@c"), 40u);
    EXPECT_EQ(traced.total("@f"), 100u);
    EXPECT_EQ(traced.total("@g"), 84u);
    EXPECT_EQ(traced.total("@sp"), 2 * sp);
    EXPECT_EQ(traced.total("@ip"), 2 * uint64_t(sample.begin));
    EXPECT_EQ(traced.total("@from"), 2 * uint64_t(behind_called));
    EXPECT_EQ(traced.process.dropped(), 0u);
  }
}

TEST(BehindEntry, WhoReadsARegisterGetsWhatItWas) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.name);
    Traced traced(
        "uprobe:/a:f { @ax = sum(reg(\"ax\")); @r10 = sum(reg(\"r10\")); @di = sum(reg(\"di\")); @bx = "
        "sum(reg(\"bx\")); @r12 = sum(reg(\"r12\")); }");
    SampleText facts;
    const SiteRequest site = entry_of(sample, traced);
    const auto patches = traced.process.patch_as_planned(facts, std::span(&site, 1));
    EXPECT_EQ(covers_entry(patches, sample), !sample.stays_for_all);
    uint64_t sp = 0;
    EXPECT_EQ(behind_call(sample.begin, &sp), 1042u);
    EXPECT_EQ(traced.total("@ax"), 0x77u);
    EXPECT_EQ(traced.total("@r10"), 0x1234u);
    EXPECT_EQ(traced.total("@di"), 1000u);
    EXPECT_EQ(traced.total("@bx"), uint64_t(&sp));
  }
}

// A script that reads nothing has a body that keeps nothing: the flags are what may be lost.
TEST(BehindEntry, TheFunctionGoesOnWithItsFlags) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.name);
    Traced traced("uprobe:/a:f { @ = count(); }");
    SampleText facts;
    const SiteRequest site = entry_of(sample, traced);
    // Two probes at one place.
    const SiteRequest sites[] = {site, site};
    traced.process.patch_as_planned(facts, sites);
    uint64_t sp = 0;
    for (int i = 0; i < 100; i++) ASSERT_EQ(behind_call(sample.begin, &sp), 1042u);
    EXPECT_EQ(traced.total("@"), 200u);
  }
}

// The entry's stack pointer is what its exit looks for.
TEST(BehindEntry, EntriesAndExitsAreOfOneCall) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.name);
    auto compiled = compile_script("uretprobe:/a:f { @ = count(); @r = sum(retval); }").value();
    codegen::Pairing pairing(compiled.program, true);
    const uint32_t enter = pairing.enter({}).value(), leave = pairing.leave(0, {}).value();
    const uint32_t counters = *pairing.counters();
    OwnProcess process(compiled.program);
    SampleText facts;
    const x86::Flow flow = x86::analyze(facts.function_at(ImageAddr{uint64_t(sample.begin)})->code);
    std::vector<SiteRequest> sites = {{ImageAddr{uint64_t(sample.begin)}, enter, 1}};
    sites[0].read = process.code().read_at_entry(enter);
    for (const x86::Exit& exit : flow.exits())
      if (exit.kind == x86::ExitKind::ret) sites.push_back({ImageAddr{exit.address}, leave, 1});
    process.patch_as_planned(facts, sites);
    uint64_t sp = 0;
    for (int i = 0; i < 50; i++) ASSERT_EQ(behind_call(sample.begin, &sp), 1042u);
    auto total = [&](std::string_view name) {
      for (const event::MapPlan& each : compiled.plan.maps)
        if (each.name == name) return process.total(each.program_map);
      return ~uint64_t{0};
    };
    EXPECT_EQ(total("@"), 50u);
    EXPECT_EQ(total("@r"), 50 * 1042u);
    for (auto counter : {codegen::Pairing::Counter(0), codegen::Pairing::Counter(1)})
      EXPECT_EQ(process.total(counters, counter), 0u);
  }
}

}  // namespace
}  // namespace uscope::engine::inproc
