// Go's stack check. A Go function begins by comparing rsp with the goroutine's stack limit and, when there is
// too little left, grows the stack and starts over from its first instruction: a probe there sees one call
// twice. The place behind the check is passed once a call.
#pragma once

#include <cstdint>
#include <optional>

#include "x86/flow.h"

namespace uscope::x86 {

struct GoStackCheck {
  uint64_t after = 0;         // the first instruction behind the check
  uint64_t slow_path = 0;     // where the stack is grown
  RegisterSet clobbered = 0;  // what the check itself writes (r12, r13, rcx by version)
};

// Recognises the check at the function's entry, in the forms that Go 1.16 to 1.26 write:
//   [mov %fs:-8,%rcx]  cmp 0x10(%r14),%rsp; jbe          small frames (r14 or, before 1.17, rcx holds g)
//   lea -N(%rsp),%r12; cmp 0x10(%r14),%r12; jbe          larger ones
//   mov %rsp,%r12; sub $N,%r12; jb; cmp ...; jbe         huge ones
//   mov 0x10(%rcx),%rsi; cmp $-1314,%rsi; je; lea M(%rsp),%rax; sub %rsi,%rax; cmp $N,%rax; jbe    huge ones
//   before 1.17
// and only if the slow path leads back to the entry.
std::optional<GoStackCheck> find_go_stack_check(const Flow& flow);

}  // namespace uscope::x86
