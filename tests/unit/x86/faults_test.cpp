#include "x86/faults.h"

#include <gtest/gtest.h>

#include "unit/x86/code.h"

namespace uscope::x86 {
namespace {

using testing::base;
using testing::code;
using testing::function;

TEST(Faults, ByAPointerADivisionOrATrap) {
  for (const char* hex : {
           "488b4008",      // mov 8(%rax),%rax
           "488903",        // mov %rax,(%rbx)
           "8400",          // test %al,(%rax): how Go asks
           "488b04c4",      // mov (%rsp,%rax,8),%rax
           "498b4e30",      // mov 48(%r14),%rcx
           "488b45f8",      // mov -8(%rbp),%rax
           "64488b01",      // mov %fs:(%rcx),%rax
           "f348ab",        // rep stos
           "ff5018",        // call *24(%rax)
           "48f7f9",        // idiv %rcx
           "f7f1",          // div %ecx
           "0f0b",          // ud2
           "cc",            // int3
           "cd03",          // int $3
           "c4e27d92048b",  // vgatherdps
       })
    EXPECT_TRUE(may_fault(code(hex))) << hex;
}

TEST(Faults, NotByTheStackTheImageOrTheThread) {
  for (const char* hex : {
           "55", "5d", "c3", "c9",  // push, pop, ret, leave
           "e800000000",            // call
           "ffd0",                  // call *%rax
           "488b442410",            // mov 16(%rsp),%rax
           "488b0500000000",        // mov (%rip),%rax
           "64488b0425f8ffffff",    // mov %fs:-8,%rax
           "488d4008",              // lea 8(%rax),%rax
           "0f1f4008", "0f1808",    // nop, prefetch
           "4801d8", "f30f1efa",    // add, endbr64
       })
    EXPECT_FALSE(may_fault(code(hex))) << hex;
}

TEST(Faults, TheReturnAddressIsOnTopBeforeAnythingIsPushed) {
  // mov (%rax),%rax; push %rbp; mov (%rax),%rax; pop %rbp; ret
  const auto bytes = code("488b00 55 488b00 5d c3");
  const Flow flow = analyze(function(bytes));
  EXPECT_TRUE(is_return_address_on_top(flow, base));
  EXPECT_TRUE(is_return_address_on_top(flow, base + 3));
  EXPECT_FALSE(is_return_address_on_top(flow, base + 4));
  EXPECT_FALSE(is_return_address_on_top(flow, base + 8)) << "it is, but that is not followed so far";
  EXPECT_TRUE(is_return_address_on_top(CodeRange{base, bytes}, base + 3));
  EXPECT_FALSE(is_return_address_on_top(CodeRange{base, bytes}, base + 4));
  EXPECT_FALSE(is_return_address_on_top(CodeRange{base, bytes}, base + 2)) << "no instruction begins there";
}

TEST(Faults, TheReturnAddressIsOnTopInAFunctionWithoutFrame) {
  // test %rax,%rax; je 1f; mov (%rax),%rax; 1: mov (%rbx),%rcx; ret
  const auto bytes = code("4885c0 7403 488b00 488b0b c3");
  EXPECT_TRUE(is_return_address_on_top(analyze(function(bytes)), base + 8));
  const auto pushes = code("4885c0 7401 55 488b00 488b0b c3");
  EXPECT_FALSE(is_return_address_on_top(analyze(function(pushes)), base + 6));
}

}  // namespace
}  // namespace uscope::x86
