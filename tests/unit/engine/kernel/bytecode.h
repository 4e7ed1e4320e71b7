// A tiny assembler for tests: enough of eBPF to count, to send a record and to look at a register.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace uscope::engine::kernel {

class Bytecode {
 public:
  Bytecode& op(uint8_t code, int dst, int src, int offset, int32_t imm) {
    bpf_insn i{};
    i.code = code;
    i.dst_reg = uint8_t(dst) & 0xf;
    i.src_reg = uint8_t(src) & 0xf;
    i.off = int16_t(offset);
    i.imm = imm;
    instructions_.push_back(i);
    return *this;
  }
  Bytecode& mov(int dst, int32_t imm) { return op(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm); }
  Bytecode& mov_reg(int dst, int src) { return op(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0); }
  Bytecode& add(int dst, int32_t imm) { return op(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, imm); }
  Bytecode& load(int dst, int src, int offset) { return op(BPF_LDX | BPF_MEM | BPF_DW, dst, src, offset, 0); }
  Bytecode& store(int dst, int offset, int src) {
    return op(BPF_STX | BPF_MEM | BPF_DW, dst, src, offset, 0);
  }
  Bytecode& store_u32(int dst, int offset, int32_t imm) {
    return op(BPF_ST | BPF_MEM | BPF_W, dst, 0, offset, imm);
  }
  Bytecode& atomic_add(int dst, int offset, int src) {
    return op(BPF_STX | BPF_ATOMIC | BPF_DW, dst, src, offset, BPF_ADD);
  }
  Bytecode& call(int32_t helper) { return op(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
  Bytecode& skip_unless_zero(int reg, int count) { return op(BPF_JMP | BPF_JNE | BPF_K, reg, 0, count, 0); }
  Bytecode& skip_if_zero(int reg, int count) { return op(BPF_JMP | BPF_JEQ | BPF_K, reg, 0, count, 0); }
  Bytecode& map(int dst, uint32_t index) { return map_load(dst, {uint32_t(instructions_.size()), index}); }
  Bytecode& value(int dst, uint32_t index, uint32_t offset = 0) {
    return map_load(dst, {uint32_t(instructions_.size()), index, true, offset});
  }
  Bytecode& done() { return mov(0, 0).op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

  codegen::Code code(std::string name, codegen::CodeKind kind) const {
    return {std::move(name), kind, instructions_, references_};
  }

 private:
  Bytecode& map_load(int dst, codegen::MapReference reference) {
    references_.push_back(reference);
    return op(BPF_LD | BPF_IMM | BPF_DW, dst, 0, 0, 0).op(0, 0, 0, 0, 0);
  }

  std::vector<bpf_insn> instructions_;
  std::vector<codegen::MapReference> references_;
};

// One more at `offset` of the only value of an Array map.
inline Bytecode counting(uint32_t map, uint32_t offset = 0) {
  return Bytecode().value(1, map, offset).mov(2, 1).atomic_add(1, 0, 2).done();
}

// A record of {r7} in the ring buffer; counts in `lost` (a PerCpuArray) when there is no room.
inline Bytecode sending_r7(Bytecode code, uint32_t ring, uint32_t lost) {
  code.map(1, ring).mov(2, 8).mov(3, 0).call(BPF_FUNC_ringbuf_reserve);
  code.skip_if_zero(0, 6);
  code.store(0, 0, 7).mov_reg(1, 0).mov(2, 0).call(BPF_FUNC_ringbuf_submit).done();
  code.store_u32(10, -4, 0).mov_reg(2, 10).add(2, -4).map(1, lost).call(BPF_FUNC_map_lookup_elem);
  code.skip_if_zero(0, 2).mov(2, 1).atomic_add(0, 0, 2).done();
  return code;
}

}  // namespace uscope::engine::kernel
