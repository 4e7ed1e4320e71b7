#include "codegen/gate.h"

namespace uscope::codegen {
namespace {

using enum Reg;

bool keeps_context(const bpf_insn& first) {
  return first.code == (BPF_ALU64 | BPF_MOV | BPF_X) && first.dst_reg == 6 && first.src_reg == 1;
}

}  // namespace

void Gate::lookup(uint32_t map, int32_t key, Assembler::Label missing) {
  asm_.mov(R2, R10);
  asm_.alu(Alu::Add, R2, key);
  asm_.load_map(R1, map);
  asm_.call(BPF_FUNC_map_lookup_elem);
  asm_.jump_if(Cond::Eq, R0, 0, missing);
}

void Gate::remove(uint32_t map, int32_t key) {
  asm_.mov(R2, R10);
  asm_.alu(Alu::Add, R2, key);
  asm_.load_map(R1, map);
  asm_.call(BPF_FUNC_map_delete_elem);
}

void Gate::update(uint32_t map, int32_t key, int32_t value) {
  asm_.mov(R2, R10);
  asm_.alu(Alu::Add, R2, key);
  asm_.mov(R3, R10);
  asm_.alu(Alu::Add, R3, value);
  asm_.mov(R4, 0);
  asm_.load_map(R1, map);
  asm_.call(BPF_FUNC_map_update_elem);
}

void Gate::count(uint32_t map, uint32_t index, int32_t room) {
  Assembler::Label none = asm_.label();
  asm_.store(Width::B4, R10, room, int32_t(index));
  lookup(map, room, none);
  asm_.mov(R1, 1);
  asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
  asm_.bind(none);
}

Result<Code> Gate::finish(const Code* then) && {
  // The generator's codes begin by keeping the context where it already is. Once is enough: then it is plain
  // to see that R6 never changes.
  const bool skips_first = then != nullptr && keeps_context(then->instructions.front());
  Assembler::Label pass = asm_.label();
  if (then != nullptr) {
    if (!skips_first) asm_.mov(R1, R6);
    asm_.jump(pass);
  }
  asm_.bind(out_);
  asm_.mov(R0, 0);
  asm_.exit();
  asm_.bind(pass);
  TRY(Code code, asm_.finish(Assembler()));
  if (then == nullptr) return code;
  const uint32_t skipped = skips_first ? 1 : 0;
  const uint32_t first = uint32_t(code.instructions.size()) - skipped;
  code.instructions.insert(code.instructions.end(), then->instructions.begin() + skipped,
                           then->instructions.end());
  for (MapReference reference : then->maps) {
    reference.instruction += first;
    code.maps.push_back(reference);
  }
  for (uint32_t function : then->functions) code.functions.push_back(first + function);
  code.reads_result = then->reads_result;
  code.reads_took = then->reads_took;
  return code;
}

}  // namespace uscope::codegen
