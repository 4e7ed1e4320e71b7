#include "engine/inproc/code/probe_body.h"

#include <sys/auxv.h>

#include <array>

#include "engine/inproc/code/served_calls.h"
#include "engine/inproc/runtime/in_target/system_calls.h"

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;
using asmjit::Label;

namespace {

using Assembler = x86::Assembler;

constexpr uint32_t kOnStack = 1;  // of stack_t::ss_flags

struct RegisterPlace {
  x86::Gp reg;
  uint32_t offset;  // in Registers
};
// Those that a body can save straight from where they are. rax, rcx and rdx are on the stack by then.
const std::array kPlain = {
    RegisterPlace{x86::rbx, offsetof(Registers, bx)},  RegisterPlace{x86::rbp, offsetof(Registers, bp)},
    RegisterPlace{x86::rsi, offsetof(Registers, si)},  RegisterPlace{x86::rdi, offsetof(Registers, di)},
    RegisterPlace{x86::r8, offsetof(Registers, r8)},   RegisterPlace{x86::r9, offsetof(Registers, r9)},
    RegisterPlace{x86::r10, offsetof(Registers, r10)}, RegisterPlace{x86::r11, offsetof(Registers, r11)},
    RegisterPlace{x86::r12, offsetof(Registers, r12)}, RegisterPlace{x86::r13, offsetof(Registers, r13)},
    RegisterPlace{x86::r14, offsetof(Registers, r14)}, RegisterPlace{x86::r15, offsetof(Registers, r15)},
};

int32_t in_slot(uint32_t register_offset) { return int32_t(offsetof(Slot, registers) + register_offset); }

x86::Mem field(const x86::Gp& slot, size_t offset) { return x86::qword_ptr(slot, int32_t(offset)); }

// rcx = the thread's tag, which is its thread pointer + 1: in every C library, in Go and without any, that
// tells threads apart. What lies at fs:0 does not.
void emit_tag(Assembler& out) {
  if (has_rdfsbase()) {
    out.rdfsbase(x86::rcx);
  } else {
    for (const x86::Gp& each : {x86::rax, x86::rdi, x86::rsi, x86::r11}) out.push(each);
    out.push(imm(0));
    out.mov(x86::eax, kArchPrctl);
    out.mov(x86::edi, kArchGetFs);
    out.mov(x86::rsi, x86::rsp);
    out.syscall();
    out.pop(x86::rcx);
    for (const x86::Gp& each : {x86::r11, x86::rsi, x86::rdi, x86::rax}) out.pop(each);
  }
  out.inc(x86::rcx);
}

// The number of the hint for a stack pointer.
void emit_hint_number(Assembler& out, const x86::Gp& stack_pointer) {
  out.shr(stack_pointer, kHintShift);
  out.imul(stack_pointer.r32(), stack_pointer.r32(), imm(kHintHash));
  out.shr(stack_pointer.r32(), imm(32 - kHintBits));
}

// A forked child's first hit: rax is its private memory, which it finds wiped. Where forks are followed it
// says who it is and goes on at `on`. Else it makes no system call, since it may be under seccomp by now: it
// says that there is a child, for uscope to find, and its probes stay off. Several threads may come here at
// once.
void emit_forked(Assembler& out, const AreaPlaces& places, Label on, Label off) {
  Label is_followed = out.newLabel(), stays_off = out.newLabel();
  out.movabs(x86::rbx, imm(kSwitchedOff));
  out.cmp(x86::qword_ptr(x86::rax, offsetof(PrivateHeader, alive)), x86::rbx);
  out.je(off);
  out.movabs(x86::rsi, imm(places.shared));
  out.cmp(x86::dword_ptr(x86::rsi, offsetof(SharedHeader, follows_forks)), 0);
  out.jne(is_followed);
  out.lock().inc(x86::dword_ptr(x86::rsi, offsetof(SharedHeader, unnamed_children)));
  out.bind(stays_off);
  out.mov(x86::qword_ptr(x86::rax, offsetof(PrivateHeader, alive)), x86::rbx);
  out.jmp(off);
  out.bind(is_followed);
  for (const x86::Gp& each : {x86::rax, x86::rcx, x86::r11}) out.push(each);
  out.mov(x86::eax, kGetPid);
  out.syscall();
  out.mov(x86::edx, x86::eax);
  for (const x86::Gp& each : {x86::r11, x86::rcx, x86::rax}) out.pop(each);
  out.test(x86::edx, x86::edx);
  out.jle(stays_off);
  out.mov(x86::dword_ptr(x86::rax, offsetof(PrivateHeader, pid)), x86::edx);
  out.mov(x86::ebx, 1);
  out.lock().xadd(x86::dword_ptr(x86::rsi, offsetof(SharedHeader, children_said)), x86::ebx);
  out.and_(x86::ebx, imm(kMostNewChildren - 1));
  out.mov(x86::dword_ptr(x86::rsi, x86::rbx, 2, offsetof(SharedHeader, children)), x86::edx);
  out.mov(x86::qword_ptr(x86::rax, offsetof(PrivateHeader, shared)), x86::rsi);
  out.movabs(x86::rbx, imm(kAlive));
  out.mov(x86::qword_ptr(x86::rax, offsetof(PrivateHeader, alive)), x86::rbx);
  out.jmp(on);
}

// rax is the slot.
void emit_empty_slot(Assembler& out) {
  static_assert(sizeof(Slot) % 8 == 0);
  Label next = out.newLabel();
  out.mov(x86::esi, x86::dword_ptr(x86::rax, offsetof(Slot, had_another_thread)));
  out.or_(x86::rsi, x86::qword_ptr(x86::rax, offsetof(Slot, claimed)));
  out.xor_(x86::ebx, x86::ebx);
  out.bind(next);
  out.mov(x86::qword_ptr(x86::rax, x86::rbx, 3), 0);
  out.inc(x86::ebx);
  out.cmp(x86::ebx, imm(sizeof(Slot) / 8));
  out.jb(next);
  out.xor_(x86::ebx, x86::ebx);
  out.test(x86::rsi, x86::rsi);
  out.setne(x86::bl);
  out.mov(x86::dword_ptr(x86::rax, offsetof(Slot, had_another_thread)), x86::ebx);
}

// A number for the thread, the lowest that is free, and with it the slot: rdx is its entry, rcx its tag ->
// rdx = the slot. A handler that comes meanwhile finds an entry without a slot.
void emit_take_slot(Assembler& out, const SharedRoutines& routines, const AreaPlaces& places, Label done,
                    Label none) {
  constexpr auto kFree = int32_t(offsetof(SharedHeader, free_threads));
  Label word = out.newLabel(), bit = out.newLabel(), taken = out.newLabel(), search = out.newLabel();
  out.mov(x86::rsi, x86::ptr(routines.private_memory));
  out.xor_(x86::eax, x86::eax);
  out.cmp(x86::qword_ptr(x86::rsi, offsetof(PrivateHeader, is_own)), 0);
  out.jne(taken);
  out.bind(search);
  out.movabs(x86::rsi, imm(places.shared));
  out.xor_(x86::ebx, x86::ebx);
  out.bind(word);
  out.mov(x86::rax, x86::qword_ptr(x86::rsi, x86::rbx, 3, kFree));
  out.bsf(x86::rax, x86::rax);
  out.jne(bit);
  out.inc(x86::ebx);
  out.cmp(x86::ebx, imm(std::size(SharedHeader{}.free_threads)));
  out.jb(word);
  out.movabs(x86::rax, imm(kEndedThread));
  out.mov(x86::qword_ptr(x86::rdx, offsetof(ThreadEntry, tag)), x86::rax);
  out.lock().inc(x86::qword_ptr(x86::rsi, offsetof(SharedHeader, hits_without_slot)));
  out.jmp(none);
  out.bind(bit);
  out.shl(x86::ebx, 6);
  out.or_(x86::eax, x86::ebx);
  out.shr(x86::ebx, 6);
  out.lock().btr(x86::dword_ptr(x86::rsi, kFree), x86::eax);
  out.jnc(word);
  out.mov(x86::rsi, x86::ptr(routines.private_memory));
  out.bind(taken);
  out.shl(x86::rax, imm(kSlotShift));
  out.lea(x86::rax, x86::ptr(x86::rax, x86::rsi, 0, kFirstSlotHeader));
  // In a forked child it may be as a thread of its parent's had it. One with a probe in it may be in use
  // here, by a handler that forked: the next number then.
  out.cmp(x86::qword_ptr(x86::rax, offsetof(Slot, busy)), 0);
  out.jne(search);
  emit_empty_slot(out);
  out.mov(x86::qword_ptr(x86::rax, offsetof(Slot, claimed)), x86::rcx);
  out.mov(x86::qword_ptr(x86::rdx, offsetof(ThreadEntry, slot)), x86::rax);
  out.mov(x86::rdx, x86::rax);
  out.jmp(done);
}

// Looks for the thread's entry; rsi is the first on the way that is free again.
void emit_find_slot(Assembler& out, const SharedRoutines& routines, const AreaPlaces& places) {
  Label look = out.newLabel(), next = out.newLabel(), none = out.newLabel(), done = out.newLabel();
  Label found = out.newLabel(), wrapped = out.newLabel(), forked = out.newLabel(), alive = out.newLabel();
  Label is_new = out.newLabel(), claim = out.newLabel(), claiming = out.newLabel();
  const uint64_t first = places.private_memory + kThreadsOffset;
  out.align(asmjit::AlignMode::kCode, 64);
  out.bind(routines.find_slot);
  for (const x86::Gp& each : {x86::rax, x86::rbx, x86::rsi}) out.push(each);
  // In a forked child this memory is zeroes.
  out.mov(x86::rax, x86::ptr(routines.private_memory));
  out.movabs(x86::rbx, imm(kAlive));
  out.cmp(x86::qword_ptr(x86::rax, offsetof(PrivateHeader, alive)), x86::rbx);
  out.jne(forked);
  out.bind(alive);
  out.mov(x86::rax, x86::ptr(routines.private_memory));
  out.mov(x86::rdx, imm(kSlotHash));
  out.imul(x86::rdx, x86::rcx);
  out.shr(x86::rdx, imm(64 - kThreadEntryBits));
  static_assert(sizeof(ThreadEntry) == 16);
  out.shl(x86::rdx, 4);
  out.lea(x86::rdx, x86::ptr(x86::rdx, x86::rax, 0, kThreadsOffset));
  out.mov(x86::ebx, imm(1u << kThreadEntryBits));
  out.xor_(x86::esi, x86::esi);
  out.bind(look);
  out.mov(x86::rax, x86::qword_ptr(x86::rdx, offsetof(ThreadEntry, tag)));
  out.cmp(x86::rax, x86::rcx);
  out.je(found);
  out.test(x86::rax, x86::rax);
  out.je(is_new);
  out.add(x86::rax, x86::rax);  // of kEndedThread that is 0
  out.jne(next);
  out.test(x86::rsi, x86::rsi);
  out.cmove(x86::rsi, x86::rdx);
  out.bind(next);
  out.add(x86::rdx, imm(sizeof(ThreadEntry)));
  out.movabs(x86::rax, imm(first + kThreadsBytes));
  out.cmp(x86::rdx, x86::rax);
  out.jb(wrapped);
  out.movabs(x86::rdx, imm(first));
  out.bind(wrapped);
  out.dec(x86::ebx);
  out.jne(look);
  out.test(x86::rsi, x86::rsi);
  out.jne(is_new);
  out.bind(none);
  out.xor_(x86::edx, x86::edx);
  out.jmp(done);
  out.bind(is_new);
  out.xor_(x86::eax, x86::eax);
  out.test(x86::rsi, x86::rsi);
  out.je(claim);
  out.mov(x86::rdx, x86::rsi);
  out.movabs(x86::rax, imm(kEndedThread));
  out.bind(claim);
  out.lock().cmpxchg(x86::qword_ptr(x86::rdx, offsetof(ThreadEntry, tag)), x86::rcx);
  out.jne(alive);
  emit_take_slot(out, routines, places, done, none);
  out.bind(found);
  out.mov(x86::rdx, x86::qword_ptr(x86::rdx, offsetof(ThreadEntry, slot)));
  out.test(x86::rdx, x86::rdx);
  out.je(claiming);
  // Next time, on this stack, it is found at once. The caller's stack pointer: three pushes and a call
  // higher.
  out.lea(x86::rax, x86::ptr(x86::rsp, 32));
  emit_hint_number(out, x86::rax);
  out.mov(x86::rsi, x86::ptr(routines.private_memory));
  out.mov(x86::rbx, x86::rdx);
  out.sub(x86::rbx, x86::rsi);
  out.mov(x86::dword_ptr(x86::rsi, x86::rax, 2, kHintsOffset), x86::ebx);
  out.bind(done);
  for (const x86::Gp& each : {x86::rsi, x86::rbx, x86::rax}) out.pop(each);
  out.ret();
  out.bind(claiming);
  out.movabs(x86::rax, imm(places.shared + offsetof(SharedHeader, hits_while_claiming)));
  out.lock().inc(x86::qword_ptr(x86::rax));
  out.jmp(none);
  out.bind(forked);
  emit_forked(out, places, alive, none);
}

// The least that lies between the stack pointer where a signal came and its handler's: the red zone, the
// floating-point state and the kernel's frame.
constexpr int32_t kSignalFrame = 128 + 512 + 440;

// A hit that was left for good holds scratch memory still. There is no other hit of this thread that could.
void emit_free_scratch(Assembler& out, const MapInfo* scratch) {
  if (!scratch) return;
  Label none = out.newLabel();
  out.mov(x86::rax, field(x86::rdx, offsetof(Slot, values)));
  out.test(x86::rax, x86::rax);
  out.je(none);
  out.add(x86::rax, imm(scratch->thread_values));
  for (uint32_t i = 0; i < scratch->max_entries; i++)
    out.mov(x86::qword_ptr(x86::rax, int32_t(i * scratch->value_stride)), 0);
  out.bind(none);
}

// A hit while one is being handled: from a signal handler, or from what a handler has switched to and will
// come back from. Unless a handler has left the first one for good by longjmp: then both stack pointers are
// on the thread's own stack, the one now is not below the first, by as much as a handler's is, and no handler
// runs on a stack of its own. Where the thread's stack is not known, nothing is certain.
void emit_is_nested(Assembler& out, const SharedRoutines& routines, const MapInfo* scratch) {
  Label nested = out.newLabel(), uncounted = out.newLabel(), abandoned = out.newLabel();
  out.align(asmjit::AlignMode::kCode, 16);
  out.bind(routines.is_nested);
  out.push(x86::rax);
  out.mov(x86::rax, x86::rdx);
  out.sub(x86::rax, x86::rsp);
  out.cmp(x86::rax, imm(kSlotStride - kSlotHeader));
  out.jbe(nested);
  // 16 for the two words pushed since the body's stack pointer.
  out.lea(x86::rax, x86::ptr(x86::rsp, 16 + kSignalFrame));
  out.cmp(x86::rax, field(x86::rdx, offsetof(Slot, busy)));
  out.jbe(nested);
  constexpr size_t kBegin = offsetof(Slot, stack) + offsetof(AddressRange, begin);
  constexpr size_t kEnd = offsetof(Slot, stack) + offsetof(AddressRange, end);
  out.cmp(x86::rsp, field(x86::rdx, kEnd));
  out.jae(nested);
  out.mov(x86::rax, field(x86::rdx, kBegin));
  out.cmp(x86::rax, x86::rsp);
  out.ja(nested);
  out.cmp(x86::rax, field(x86::rdx, offsetof(Slot, busy)));
  out.ja(nested);
  for (const x86::Gp& each : {x86::rcx, x86::rsi, x86::rdi, x86::r11}) out.push(each);
  out.sub(x86::rsp, 24);  // stack_t
  // Where a seccomp filter forbids to ask, it may be a handler's.
  out.mov(x86::dword_ptr(x86::rsp, 8), imm(kOnStack));
  out.xor_(x86::edi, x86::edi);
  out.mov(x86::rsi, x86::rsp);
  out.mov(x86::eax, kSigaltstack);
  out.syscall();
  out.test(x86::dword_ptr(x86::rsp, 8), imm(kOnStack));
  out.lea(x86::rsp, x86::ptr(x86::rsp, 24));
  for (const x86::Gp& each : {x86::r11, x86::rdi, x86::rsi, x86::rcx}) out.pop(each);
  out.je(abandoned);
  out.bind(nested);
  out.mov(x86::rax, field(x86::rdx, offsetof(Slot, values)));
  out.test(x86::rax, x86::rax);
  out.je(uncounted);
  out.inc(x86::qword_ptr(x86::rax, offsetof(ThreadBlock, dropped)));
  out.bind(uncounted);
  out.pop(x86::rax);
  out.stc();
  out.ret();
  out.bind(abandoned);
  emit_free_scratch(out, scratch);
  out.pop(x86::rax);
  out.clc();
  out.ret();
}

class Body {
 public:
  Body(Assembler& out, const SharedRoutines& routines, const CodeFacts& facts, const SharedPlan& plan,
       const AreaPlaces& places)
      : out_(out), routines_(routines), facts_(facts), plan_(plan), places_(places) {}

  // Finds the slot and begins a version of the code; `clobbered` as Translator's.
  void begin_quick(Label entry, uint32_t clobbered);
  void end_quick(uint32_t clobbered);
  // On the way from the quick to the full version.
  void save_rest(uint32_t quick, uint32_t full);
  void begin_full(Label entry, uint32_t clobbered, bool has_quick);
  void end_full(uint32_t clobbered);

 private:
  bool needs(size_t offset) const { return facts_.context_words >> (offset / 8) & 1; }
  void find_slot(Label entry);
  void save_registers(uint32_t clobbered);
  void save_stub_registers();
  void give_back(uint32_t clobbered);
  void start_thread();

  Assembler& out_;
  const SharedRoutines& routines_;
  const CodeFacts& facts_;
  const SharedPlan& plan_;
  const AreaPlaces& places_;
  Label free_ = out_.newLabel(), found_ = out_.newLabel(), no_slot_ = out_.newLabel();
  Label slow_ = out_.newLabel(), busy_ = out_.newLabel(), new_thread_ = out_.newLabel();
  Label known_thread_ = out_.newLabel();
};

// rdx = the slot; free to be used.
void Body::find_slot(Label entry) {
  out_.align(asmjit::AlignMode::kCode, 64);
  out_.bind(entry);
  out_.push(x86::rcx);
  out_.push(x86::rdx);
  // By the hint, since what is stored to should not depend on rdfsbase, which takes long: it only confirms.
  out_.mov(x86::rdx, x86::rsp);
  emit_hint_number(out_, x86::rdx);
  out_.mov(x86::rcx, x86::ptr(routines_.private_memory));
  out_.mov(x86::edx, x86::dword_ptr(x86::rcx, x86::rdx, 2, kHintsOffset));
  out_.add(x86::rdx, x86::rcx);
  emit_tag(out_);
  out_.cmp(field(x86::rdx, offsetof(Slot, tag)), x86::rcx);
  out_.jne(slow_);
}

// A tag that matches is one of a thread whose block is there: others come by find_slot's routine, to the full
// version.
void Body::begin_quick(Label entry, uint32_t clobbered) {
  find_slot(entry);
  out_.cmp(field(x86::rdx, offsetof(Slot, busy)), 0);
  out_.jne(busy_);
  out_.mov(field(x86::rdx, offsetof(Slot, busy)), x86::rsp);
  save_registers(clobbered);
  out_.mov(x86::r12, x86::rdx);
  if (facts_.uses_may_goto) out_.mov(field(x86::r12, offsetof(Slot, rounds_left)), imm(kRoundsOfHit));
  if (!facts_.context_in_r6) out_.lea(x86::rdi, x86::ptr(x86::r12, offsetof(Slot, registers)));
}

void Body::end_quick(uint32_t clobbered) {
  give_back(clobbered);
  out_.mov(field(x86::rdx, offsetof(Slot, busy)), 0);
  out_.pop(x86::rdx);
  out_.pop(x86::rcx);
  out_.ret();
}

void Body::save_rest(uint32_t quick, uint32_t full) {
  for (const RegisterPlace& each : kPlain)
    if (full >> each.reg.id() & 1 && !(quick >> each.reg.id() & 1) && !needs(each.offset))
      out_.mov(x86::qword_ptr(x86::r12, in_slot(each.offset)), each.reg);
  out_.lea(x86::rsp, x86::ptr(x86::r12, -int32_t(kBpfStack)));
}

void Body::begin_full(Label entry, uint32_t clobbered, bool has_quick) {
  if (!has_quick) find_slot(entry);
  out_.bind(found_);
  out_.cmp(field(x86::rdx, offsetof(Slot, busy)), 0);
  out_.jne(busy_);
  out_.bind(free_);
  // One store says both that the slot is in use and how to get back.
  out_.mov(field(x86::rdx, offsetof(Slot, busy)), x86::rsp);
  save_registers(clobbered);
  out_.mov(x86::r12, x86::rdx);
  out_.lea(x86::rsp, x86::ptr(x86::r12, -int32_t(kBpfStack)));
  out_.cmp(field(x86::r12, offsetof(Slot, values)), 0);
  out_.je(new_thread_);
  out_.bind(known_thread_);
  if (facts_.uses_may_goto) out_.mov(field(x86::r12, offsetof(Slot, rounds_left)), imm(kRoundsOfHit));
  if (!facts_.context_in_r6) out_.lea(x86::rdi, x86::ptr(x86::r12, offsetof(Slot, registers)));
}

void Body::save_registers(uint32_t clobbered) {
  for (const RegisterPlace& each : kPlain)
    if (clobbered >> each.reg.id() & 1 || needs(each.offset))
      out_.mov(x86::qword_ptr(x86::rdx, in_slot(each.offset)), each.reg);
  for (uint32_t i = 0; i < kVectors; i++)
    if (facts_.vectors >> i & 1)
      out_.movups(x86::xmmword_ptr(x86::rdx, int32_t(offsetof(Slot, vectors) + kVectorBytes * i)),
                  x86::xmm(i));
  if (facts_.needs_site) out_.mov(field(x86::rdx, offsetof(Slot, site)), x86::rax);
  save_stub_registers();
}

// What is on the stack by now, and what only the site knows.
void Body::save_stub_registers() {
  auto put = [&](size_t offset) { out_.mov(x86::qword_ptr(x86::rdx, in_slot(uint32_t(offset))), x86::rcx); };
  auto from_stack = [&](size_t offset, int32_t at) {
    if (!needs(offset)) return;
    out_.mov(x86::rcx, x86::qword_ptr(x86::rsp, at));
    put(offset);
  };
  from_stack(offsetof(Registers, dx), 0);
  from_stack(offsetof(Registers, cx), 8);
  if (needs(offsetof(Registers, ax))) {
    out_.movsxd(x86::rcx, x86::dword_ptr(x86::rax, offsetof(SiteRecord, ax_offset)));
    out_.mov(x86::rcx, x86::qword_ptr(x86::rsp, x86::rcx));
    put(offsetof(Registers, ax));
  }
  if (needs(offsetof(Registers, sp))) {
    out_.movsxd(x86::rcx, x86::dword_ptr(x86::rax, offsetof(SiteRecord, sp_offset)));
    out_.add(x86::rcx, x86::rsp);
    put(offsetof(Registers, sp));
  }
  if (needs(offsetof(Registers, ip))) {
    out_.mov(x86::rcx, x86::qword_ptr(x86::rax, offsetof(SiteRecord, address)));
    put(offsetof(Registers, ip));
  }
  static constexpr std::pair<size_t, int> kFixed[] = {
      {offsetof(Registers, orig_ax), -1}, {offsetof(Registers, cs), 0x33}, {offsetof(Registers, ss), 0x2b}};
  for (auto [offset, value] : kFixed)
    if (needs(offset)) out_.mov(x86::qword_ptr(x86::rdx, in_slot(uint32_t(offset))), imm(value));
}

void Body::give_back(uint32_t clobbered) {
  out_.mov(x86::rdx, x86::r12);
  for (const RegisterPlace& each : kPlain)
    if (clobbered >> each.reg.id() & 1) out_.mov(each.reg, x86::qword_ptr(x86::rdx, in_slot(each.offset)));
}

void Body::end_full(uint32_t clobbered) {
  give_back(clobbered);
  out_.mov(x86::rsp, field(x86::rdx, offsetof(Slot, busy)));
  // From here on a signal handler's hit may use the slot.
  out_.mov(field(x86::rdx, offsetof(Slot, busy)), 0);
  out_.bind(no_slot_);
  out_.pop(x86::rdx);
  out_.pop(x86::rcx);
  out_.ret();
  out_.bind(slow_);
  out_.call(routines_.find_slot);
  out_.test(x86::rdx, x86::rdx);
  out_.jne(found_);
  out_.jmp(no_slot_);
  out_.bind(busy_);
  out_.call(routines_.is_nested);
  out_.jnc(free_);
  out_.jmp(no_slot_);
  start_thread();
}

void Body::start_thread() {
  static const std::array kCallClobbers = {x86::rdi, x86::rsi, x86::r8, x86::r9, x86::r10, x86::r11};
  out_.bind(new_thread_);
  for (const x86::Gp& each : kCallClobbers) out_.push(each);
  out_.mov(x86::rdi, x86::r12);
  out_.movabs(x86::rsi, imm(places_.private_memory));
  out_.movabs(x86::rdx, imm(plan_.thread_blocks));
  out_.movabs(x86::rcx, imm(plan_.thread_stride));
  out_.movabs(x86::r8, imm(plan_.bytes));
  out_.call(imm(places_.blob + blob_offset("uscope_thread_start")));
  for (size_t i = kCallClobbers.size(); i-- > 0;) out_.pop(kCallClobbers[i]);
  out_.jmp(known_thread_);
}

}  // namespace

bool has_rdfsbase() {
  constexpr unsigned long kFsGsBase = 2;  // of AT_HWCAP2: the kernel has switched it on
  return (getauxval(AT_HWCAP2) & kFsGsBase) != 0;
}

SharedRoutines emit_shared_routines(Assembler& out, const AreaPlaces& places, const MapInfo* scratch) {
  SharedRoutines routines{out.newLabel(), out.newLabel(), out.newLabel()};
  out.align(asmjit::AlignMode::kData, 8);
  out.bind(routines.private_memory);
  out.embedUInt64(places.private_memory);
  emit_find_slot(out, routines, places);
  emit_is_nested(out, routines, scratch);
  return routines;
}

Status emit_body(Assembler& out, Label entry, const SharedRoutines& routines, const codegen::Code& code,
                 const CodeFacts& facts, const ValueFlow& flow, const SharedPlan& plan,
                 const AreaPlaces& places) {
  Translator translator(out, code, facts, flow, plan, places);
  translator.prepare();
  Body body(out, routines, facts, plan, places);
  const uint32_t quick = translator.clobbered(Version::Quick), full = translator.clobbered(Version::Full);
  if (translator.has_quick_version()) {
    Label end = out.newLabel();
    body.begin_quick(entry, quick);
    TRY_STATUS(translator.run(Version::Quick, end));
    out.bind(end);
    body.end_quick(quick);
    translator.emit_upgrades([&] { body.save_rest(quick, full); });
    out.align(asmjit::AlignMode::kCode, 16);
  }
  Label end = out.newLabel();
  body.begin_full(entry, full, translator.has_quick_version());
  TRY_STATUS(translator.run(Version::Full, end));
  out.bind(end);
  body.end_full(full);
  translator.emit_rest();
  return {};
}

}  // namespace uscope::engine::inproc
