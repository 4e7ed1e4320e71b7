// Calls: functions of the code itself, and the runtime's.
#include "engine/inproc/code/served_calls.h"
#include "engine/inproc/code/translator.h"

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;

void Translator::call_runtime(std::string_view symbol) {
  out_.mov(x86::r9, x86::r12);
  out_.call(imm(places_.blob + blob_offset(symbol)));
}

Status Translator::call(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (i.src_reg == BPF_PSEUDO_CALL) {
    out_.call(functions_[facts_.function_of(uint32_t(int32_t(at) + 1 + i.imm))]);
    return {};
  }
  const auto served = served_call(i.imm);
  if (!served) return refuse(at, "a call that this engine does not serve");
  call_runtime(served->symbol);
  return {};
}

}  // namespace uscope::engine::inproc
