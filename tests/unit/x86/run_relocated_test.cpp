// Whole functions moved to fresh memory and run: they must compute what the originals compute.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "x86/flow.h"
#include "x86/relocate.h"

// Each function ends with a symbol of its own, so that its size is known. Written as assembly: the compiler
// shall not change what is tested.
asm(R"(
.macro begin name
  .text
  .p2align 4
  .globl \name
  .type \name, @function
\name:
.endm
.macro finish name
  .globl \name\()_end
\name\()_end:
.endm

begin x86_test_sum            # sum of bytes: short loop, jrcxz
  xor %eax,%eax
  mov %rsi,%rcx
  jrcxz 2f
1: movzbl (%rdi),%edx
  add %rdx,%rax
  inc %rdi
  loop 1b
2: ret
finish x86_test_sum

begin x86_test_table          # rip-relative load, and a backward branch to the very start
  dec %edi
  test %edi,%edi
  jg x86_test_table
  lea x86_test_values(%rip),%rax
  mov x86_test_values+8(%rip),%rdx
  cmpb $3,x86_test_values(%rip)
  jne 1f
  add %rdx,%rdx
1: mov (%rax),%rax
  lea (%rax,%rdx),%rax
  ret
finish x86_test_table

begin x86_test_calls          # direct, through a register, through memory, through the stack; keeps callee-saved ones
  push %rbx
  push %rdi
  lea x86_test_double(%rip),%rbx
  call x86_test_double
  mov %rax,%rdi
  call *%rbx
  mov %rax,%rdi
  push %rbx
  call *(%rsp)
  mov %rax,%rdi
  call *x86_test_pointer(%rip)
  pop %rbx
  pop %rdi
  pop %rbx
  add %rdi,%rax
  ret
finish x86_test_calls

begin x86_test_double
  lea (%rdi,%rdi),%rax
  ret
finish x86_test_double

begin x86_test_switch         # a position-independent switch table of absolute places outside of the copy
  cmp $2,%edi
  ja 9f
  lea 8f(%rip),%rdx
  mov %edi,%edi
  movslq (%rdx,%rdi,4),%rax
  add %rdx,%rax
  jmp *%rax
1: mov $10,%eax
  ret
2: mov $20,%eax
  ret
3: mov $30,%eax
  ret
9: mov $-1,%eax
  ret
finish x86_test_switch
  .section .rodata
  .p2align 2
8: .long 1b-8b, 2b-8b, 3b-8b
  .p2align 3
x86_test_values: .quad 3, 1000
  .section .data.rel.ro,"aw"
  .p2align 3
x86_test_pointer: .quad x86_test_double
  .text
)");

extern "C" {
uint64_t x86_test_sum(const uint8_t*, uint64_t);
uint64_t x86_test_table(uint64_t);
uint64_t x86_test_calls(uint64_t);
uint64_t x86_test_double(uint64_t);
int x86_test_switch(unsigned);
extern const uint8_t x86_test_sum_end[], x86_test_table_end[], x86_test_calls_end[], x86_test_switch_end[];
}

namespace uscope::x86 {
namespace {

class CodePage {
 public:
  explicit CodePage(uintptr_t near) {
    // Somewhere in reach of the test's own code.
    for (uintptr_t hint = (near & ~uintptr_t(0xffff)) + (64 << 20); !memory_; hint += 1 << 20) {
      void* got = mmap(reinterpret_cast<void*>(hint), size, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (got != MAP_FAILED) memory_ = static_cast<uint8_t*>(got);
    }
  }
  // Anywhere, most likely out of reach.
  CodePage() {
    memory_ =
        static_cast<uint8_t*>(mmap(reinterpret_cast<void*>(0x1000'0000'0000), size,
                                   PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~CodePage() { munmap(memory_, size); }
  CodePage(const CodePage&) = delete;
  uint8_t* memory() { return memory_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }

 private:
  static constexpr size_t size = 1 << 16;
  uint8_t* memory_ = nullptr;
};

CodeRange range_of(const void* start, const uint8_t* end) {
  const auto* begin = static_cast<const uint8_t*>(start);
  return {reinterpret_cast<uint64_t>(begin), Bytes(begin, end)};
}

template <typename F>
F* copy_function(F* function, const uint8_t* end, CodePage& page) {
  const CodeRange run = range_of(reinterpret_cast<const void*>(function), end);
  const auto copy =
      relocate(run, page.address(), {.calls = CallStyle::return_to_copy, .start_stays_in_copy = true});
  EXPECT_TRUE(copy) << copy.error().text();
  if (!copy) return nullptr;
  std::memcpy(page.memory(), copy->bytes.data(), copy->bytes.size());
  return reinterpret_cast<F*>(page.memory());
}

TEST(RunRelocated, LoopsAndCountedJumps) {
  CodePage near(reinterpret_cast<uintptr_t>(&x86_test_sum)), far;
  const uint8_t data[] = {1, 2, 3, 250, 77};
  for (CodePage* page : {&near, &far}) {
    auto* copy = copy_function(x86_test_sum, x86_test_sum_end, *page);
    ASSERT_NE(copy, nullptr);
    for (uint64_t n = 0; n <= 5; ++n) EXPECT_EQ(copy(data, n), x86_test_sum(data, n)) << n;
  }
}

TEST(RunRelocated, RipRelativeOperands) {
  CodePage page(reinterpret_cast<uintptr_t>(&x86_test_table));
  auto* copy = copy_function(x86_test_table, x86_test_table_end, page);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(x86_test_table(5), 2003u);
  EXPECT_EQ(copy(5), 2003u);
}

TEST(RunRelocated, CallsOfEveryKind) {
  CodePage page(reinterpret_cast<uintptr_t>(&x86_test_calls));
  auto* copy = copy_function(x86_test_calls, x86_test_calls_end, page);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(x86_test_calls(3), 51u);
  EXPECT_EQ(copy(3), 51u);
}

TEST(RunRelocated, ASwitchGoesOnInTheOriginal) {
  CodePage page(reinterpret_cast<uintptr_t>(&x86_test_switch));
  auto* copy = copy_function(x86_test_switch, x86_test_switch_end, page);
  ASSERT_NE(copy, nullptr);
  for (unsigned n = 0; n < 5; ++n) EXPECT_EQ(copy(n), x86_test_switch(n)) << n;
}

TEST(RunRelocated, TheAnalysisAgreesAboutTheseFunctions) {
  FunctionCode code;
  code.parts.push_back(range_of(reinterpret_cast<const void*>(&x86_test_switch), x86_test_switch_end));
  code.read_image = [](uint64_t address, uint64_t size) {
    return Bytes(reinterpret_cast<const uint8_t*>(address), size);
  };
  const Flow flow = analyze(code);
  EXPECT_TRUE(flow.complete()) << flow.gap_text();
  EXPECT_EQ(flow.exits().size(), 4u);
  ASSERT_EQ(flow.tables().size(), 1u);
  EXPECT_EQ(flow.tables()[0].entries, 3u);
}

// The callee of a moved call must see the original return address, and come back to the original code.
TEST(RunRelocated, AMovedCallReturnsToTheOriginal) {
  const CodeRange function = range_of(reinterpret_cast<const void*>(&x86_test_calls), x86_test_calls_end);
  // The first call is the fourth instruction; move everything up to and with it.
  uint64_t end = 0;
  for (Decoder decoder(function.bytes, function.address); auto i = decoder.next();) {
    end = i->end();
    if (i->kind == Kind::call) break;
  }
  CodePage page(function.address);
  const auto copy =
      relocate({function.address, function.bytes.first(end - function.address)}, page.address());
  ASSERT_TRUE(copy) << copy.error().text();
  EXPECT_FALSE(copy->falls_through);
  std::memcpy(page.memory(), copy->bytes.data(), copy->bytes.size());
  EXPECT_EQ(reinterpret_cast<decltype(&x86_test_calls)>(page.memory())(3), 51u);
}

}  // namespace
}  // namespace uscope::x86
