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
  .globl sample_lone_return, sample_lone_return_at, sample_lone_return_end
sample_lone_return:
  mov %rdi, %rax
  cmp $100, %rdi
  ja 2f
  test $1, %dil
  je 1f
  lea 1(%rax,%rax), %rax
  cmp $50, %rdi
  ja 1f
  add %rdi, %rax
  sub $7, %rax
sample_lone_return_at:
1:
  ret
2:
  neg %rax
  ret
sample_lone_return_end:
  .balign 64, 0xcc
  .globl sample_runs_on, sample_runs_on_end, sample_runs_on_filler, sample_next, sample_next_end
sample_runs_on:
  add $5, %rdi
  cmp $7, %rdi
sample_runs_on_end:
  nopw 0x100(%rax,%rax,1)
sample_runs_on_filler:
  nopl (%rax)
sample_next:
  lea (%rdi,%rdi,2), %rax
  ret
sample_next_end:
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
  functions_[uint64_t(&sample_lone_return)] = uint64_t(sample_lone_return_end);
  functions_[uint64_t(&sample_runs_on)] = uint64_t(sample_runs_on_end);
  functions_[uint64_t(&sample_next)] = uint64_t(sample_next_end);
  functions_[uint64_t(&sample_tiny)] = uint64_t(sample_tiny_end);
  functions_[uint64_t(&sample_loop)] = uint64_t(sample_loop_end);
  functions_[uint64_t(&sample_pushes)] = uint64_t(sample_pushes_end);
  functions_[uint64_t(&sample_branchy)] = uint64_t(sample_branchy_end);
}

std::optional<FunctionFacts> SampleFacts::function_at(ImageAddr address) {
  auto after = functions_.upper_bound(address.value);
  if (after == functions_.begin()) return std::nullopt;
  auto [start, end] = *std::prev(after);
  const bool runs_on = start == uint64_t(&sample_runs_on);
  if (address.value >= (runs_on ? uint64_t(&sample_next) : end)) return std::nullopt;
  FunctionFacts facts;
  facts.code.parts.push_back({start, Bytes(reinterpret_cast<const uint8_t*>(start), end - start)});
  if (runs_on)
    facts.code.up_to_next = {start,
                             Bytes(reinterpret_cast<const uint8_t*>(start), uint64_t(&sample_next) - start)};
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
    if (start == uint64_t(&sample_runs_on)) continue;
    const uint64_t filler_end = (end + 63) & ~uint64_t(63);
    if (filler_end - end >= size)
      found.push_back({ImageAddr{end}, Bytes(reinterpret_cast<const uint8_t*>(end), filler_end - end)});
  }
  return found;
}

}  // namespace uscope::engine::inproc
