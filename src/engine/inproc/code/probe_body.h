// What is around the translated code of a probe: finding the thread's slot, keeping out hits that arrive
// while one is being handled, saving and giving back the registers, and the thread's own stack. Emitted once
// for each code of a program; the stubs of all its sites call it.
//
// Where it can be worth it there are two versions: a quick one that keeps only the few registers it changes
// and stays on the program's stack, and the full one, which the quick one turns into when a call must be made
// after all.
//
// A body is called with rax = the address of the site's SiteRecord; rax and, where they matter, the flags
// have been kept by the stub. It gives back every other register.
#pragma once

#include "engine/inproc/code/translator.h"

namespace uscope::engine::inproc {

// Parts that all bodies of an area share.
struct SharedRoutines {
  asmjit::Label find_slot;       // rcx = the thread's tag -> rdx = its slot, or 0
  asmjit::Label is_nested;       // rdx = a slot that is busy -> carry flag: a hit inside a hit, counted
  asmjit::Label private_memory;  // a word: its address
};
// `scratch` is the per-thread array whose entries each begin with a word that says whether a hit has it;
// null: the program has none.
SharedRoutines emit_shared_routines(asmjit::x86::Assembler& out, const AreaPlaces& places,
                                    const MapInfo* scratch);

// Whether code can read its own thread pointer; else the kernel is asked for it.
bool has_rdfsbase();

Status emit_body(asmjit::x86::Assembler& out, asmjit::Label entry, const SharedRoutines& routines,
                 const codegen::Code& code, const CodeFacts& facts, const ValueFlow& flow,
                 const SharedPlan& plan, const AreaPlaces& places);

// From the stack pointer that a body keeps in Slot::busy to the one that its caller called it with: rcx, rdx
// and the return address.
inline constexpr int32_t kBodyPushes = 24;

}  // namespace uscope::engine::inproc
