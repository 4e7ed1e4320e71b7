// Entries and exits of functions, served in place: the usual case of in_target/pairing.cpp, where the entry's
// set of the table is empty and the exit's entry is the first of its set. All else is the runtime's.
#include "engine/inproc/code/translator.h"

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;

namespace {

x86::Mem in_call(uint32_t way, size_t field) {
  return x86::qword_ptr(x86::rcx, int32_t(way * sizeof(OpenCall) + field));
}

// rdi = the stack pointer, rsi = the cookie, rcx = the call's set; changes rax.
void emit_find_set(x86::Assembler& out) {
  static_assert(sizeof(OpenCall) * kCallWays == 96);
  out.mov(x86::rcx, x86::qword_ptr(x86::r12, offsetof(Slot, site)));
  out.mov(x86::rdi, x86::qword_ptr(x86::r12, offsetof(Slot, busy)));
  out.movsxd(x86::rax, x86::dword_ptr(x86::rcx, offsetof(SiteRecord, sp_offset)));
  out.add(x86::rdi, x86::rax);
  out.mov(x86::rsi, x86::qword_ptr(x86::rcx, offsetof(SiteRecord, cookie)));
  out.imul(x86::eax, x86::esi, imm(int32_t(kCallHash)));
  out.mov(x86::rcx, x86::rdi);
  out.shr(x86::rcx, 4);
  out.add(x86::eax, x86::ecx);
  out.imul(x86::eax, x86::eax, imm(int32_t(kCallHash)));
  out.shr(x86::eax, imm(32 - kCallSetBits));
  out.lea(x86::rax, x86::ptr(x86::rax, x86::rax, 1));
  out.shl(x86::rax, 5);
  out.lea(x86::rcx, x86::ptr(x86::r12, x86::rax, 0, int32_t(kSlotHeader) - int32_t(kSlotStride)));
}

}  // namespace

void Translator::check_ticks(Label miss) {
  out_.mov(x86::rax, constant(places_.shared + offsetof(SharedHeader, clock)));
  out_.cmp(x86::dword_ptr(x86::rax, offsetof(TickClock, uses_ticks)), 0);
  out_.je(miss);
}

void Translator::enter_function(Label miss) {
  check_ticks(miss);
  emit_find_set(out_);
  out_.mov(x86::rax, in_call(0, offsetof(OpenCall, sp)));
  for (uint32_t way = 1; way < kCallWays; way++) out_.or_(x86::rax, in_call(way, offsetof(OpenCall, sp)));
  out_.jne(miss);
  out_.mov(in_call(0, offsetof(OpenCall, cookie)), x86::rsi);
  out_.rdtsc();
  out_.shl(x86::rdx, 32);
  out_.or_(x86::rax, x86::rdx);
  out_.mov(in_call(0, offsetof(OpenCall, time)), x86::rax);
  out_.mov(in_call(0, offsetof(OpenCall, sp)), x86::rdi);
  out_.xor_(x86::eax, x86::eax);
}

void Translator::leave_function(Label miss) {
  check_ticks(miss);
  out_.rdtsc();
  out_.shl(x86::rdx, 32);
  out_.or_(x86::rdx, x86::rax);
  emit_find_set(out_);
  out_.cmp(in_call(0, offsetof(OpenCall, sp)), x86::rdi);
  out_.jne(miss);
  out_.cmp(in_call(0, offsetof(OpenCall, cookie)), x86::rsi);
  out_.jne(miss);
  out_.mov(in_call(0, offsetof(OpenCall, sp)), 0);
  out_.mov(x86::rax, x86::rdx);
  out_.mov(x86::esi, 0);
  out_.sub(x86::rax, in_call(0, offsetof(OpenCall, time)));
  out_.cmovb(x86::rax, x86::rsi);
  out_.mov(x86::rcx, constant(places_.shared + offsetof(SharedHeader, clock)));
  out_.mul(x86::qword_ptr(x86::rcx, offsetof(TickClock, multiplier)));
  out_.shrd(x86::rax, x86::rdx, 32);
}

}  // namespace uscope::engine::inproc
