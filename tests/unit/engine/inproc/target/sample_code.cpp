#include "sample_code.h"

asm(R"(
  .pushsection .text
  .balign 64
  .globl sample_twice, sample_twice_end
sample_twice:
  endbr64
  push %rbp
  mov %rsp, %rbp
  mov %rdi, -8(%rsp)
  mov -8(%rsp), %rax
  add %rax, %rax
  pop %rbp
  ret
sample_twice_end:
  .balign 64, 0xcc
  .globl sample_tiny, sample_tiny_end
sample_tiny:
  mov %rdi, %rax
  ret
sample_tiny_end:
  .balign 64, 0xcc
  .globl sample_loop, sample_loop_end
sample_loop:
  xor %eax, %eax
1:
  add %rdi, %rax
  dec %rdi
  jnz 1b
  ret
sample_loop_end:
  .balign 64, 0xcc
  .globl sample_pushes, sample_pushes_end
sample_pushes:
  push %rbx
  push %r12
  push %r13
  mov %rdi, %rbx
  lea (%rbx,%rbx,2), %rax
  pop %r13
  pop %r12
  pop %rbx
  ret
sample_pushes_end:
  .balign 64, 0xcc
  .globl sample_branchy, sample_branchy_end
sample_branchy:
  test %rdi, %rdi
  js 1f
  mov %rdi, %rax
  ret
1:
  mov %rdi, %rax
  neg %rax
  ret
sample_branchy_end:
  .balign 64, 0xcc
  .globl sample_fill, sample_fill_end
sample_fill:
  mov %rdx, %rcx
  rep stosb
  nop
  mov %rdx, %rax
  ret
sample_fill_end:
  .balign 64, 0xcc
  .popsection
)");

namespace uscope::engine::inproc {

SampleFacts::SampleFacts() {
  functions_[uint64_t(&sample_twice)] = uint64_t(sample_twice_end);
  functions_[uint64_t(&sample_fill)] = uint64_t(sample_fill_end);
  functions_[uint64_t(&sample_tiny)] = uint64_t(sample_tiny_end);
  functions_[uint64_t(&sample_loop)] = uint64_t(sample_loop_end);
  functions_[uint64_t(&sample_pushes)] = uint64_t(sample_pushes_end);
  functions_[uint64_t(&sample_branchy)] = uint64_t(sample_branchy_end);
}

std::optional<FunctionFacts> SampleFacts::function_at(ImageAddr address) {
  auto after = functions_.upper_bound(address.value);
  if (after == functions_.begin()) return std::nullopt;
  auto [start, end] = *std::prev(after);
  if (address.value >= end) return std::nullopt;
  FunctionFacts facts;
  facts.code.parts.push_back({start, Bytes(reinterpret_cast<const uint8_t*>(start), end - start)});
  facts.code.code_pointers = leaders;
  facts.padding_behind = padding_behind;
  return facts;
}

std::vector<x86::CodeRange> SampleFacts::text() {
  const uint64_t begin = functions_.begin()->first, end = functions_.rbegin()->second;
  return {{begin, Bytes(reinterpret_cast<const uint8_t*>(begin), end - begin)}};
}

std::vector<TextFacts::Filler> SampleFacts::filler_near(ImageAddr address, uint64_t distance, uint64_t size) {
  std::vector<Filler> found;
  for (auto [start, end] : functions_) {
    if (end + distance < address.value || end > address.value + distance) continue;
    const uint64_t filler_end = (end + 63) & ~uint64_t(63);
    if (filler_end - end >= size)
      found.push_back({ImageAddr{end}, Bytes(reinterpret_cast<const uint8_t*>(end), filler_end - end)});
  }
  return found;
}

}  // namespace uscope::engine::inproc
