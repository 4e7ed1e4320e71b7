// Every eBPF instruction, run by this engine and by the kernel on the same operands: the results must be the
// same. The programs leave their results in an Array.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/kernel/kernel_engine.h"
#include "unit/engine/inproc/own_process.h"
#include "unit/engine/kernel/bytecode.h"
#include "unit/engine/kernel/target.h"

namespace uscope::engine::inproc {
namespace {

using kernel::Bytecode;
using kernel::why_no_uprobes;

constexpr uint64_t kOperands[] = {0,
                                  1,
                                  2,
                                  7,
                                  63,
                                  64,
                                  0x80,
                                  0x7fff,
                                  0x80000000,
                                  0xffffffff,
                                  0x123456789abcdef0,
                                  0x7fffffffffffffff,
                                  0x8000000000000000,
                                  0xffffffffffffff80,
                                  0xffffffffffffffff};
constexpr int kResult = 7;  // the register that points to the next result
constexpr uint32_t kMostResults = 1024;

struct Program : Bytecode {
  Program() {
    // R7 = the array's only value
    store_u32(10, -8, 0).mov_reg(2, 10).add(2, -8).map(1, 0).call(BPF_FUNC_map_lookup_elem);
    skip_unless_zero(0, 2).done();
    mov_reg(kResult, 0);
  }
  void load(int dst, uint64_t value) {
    op(BPF_LD | BPF_IMM | BPF_DW, dst, 0, 0, int32_t(value)).op(0, 0, 0, 0, int32_t(value >> 32));
  }
  void keep(int reg) { store(kResult, int(8 * (results % 4000)), reg), results++; }
  codegen::Program finish() {
    done();
    codegen::Program program;
    program.maps.push_back({"results", codegen::MapKind::Array, 4, 8 * kMostResults, 1});
    program.codes.push_back(code("code", codegen::CodeKind::RunOnce));
    return program;
  }
  uint32_t results = 0;
};

std::vector<uint64_t> results_of(const MapEntry& entry, uint32_t count) {
  std::vector<uint64_t> out(count);
  std::memcpy(out.data(), entry.values[0].data(), 8 * count);
  return out;
}

void expect_same(Program& made) {
  ASSERT_LE(made.results, kMostResults);
  const codegen::Program program = made.finish();
  kernel::KernelEngine engine;
  auto loaded = engine.load(program);
  ASSERT_TRUE(loaded) << loaded.error().message();
  ASSERT_TRUE(engine.run(0));
  const std::vector<uint8_t> zero(4);
  auto entry = engine.find_entry(0, zero);
  ASSERT_TRUE(entry && *entry);
  const std::vector<uint64_t> want = results_of(**entry, made.results);
  OwnProcess process(program);
  process.run(0);
  std::vector<uint64_t> got(made.results);
  std::memcpy(got.data(), process.shared().data() + process.map(0)->elements, 8 * got.size());
  for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], want[i]) << "result " << i;
}

struct Operation {
  const char* name;
  uint8_t code;
  int16_t offset = 0;
};
void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

class Arithmetic : public testing::TestWithParam<Operation> {};

TEST_P(Arithmetic, OfRegisters) {
  SKIP_WITHOUT_UPROBES();
  for (uint8_t width : {BPF_ALU64, BPF_ALU}) {
    // R3 and R4 are rdx and rcx here: a division and a shift need these.
    for (auto [left, right] : {std::pair{3, 4}, {4, 3}, {0, 5}}) {
      Program program;
      for (uint64_t a : kOperands)
        for (uint64_t b : kOperands) {
          program.load(left, a);
          program.load(right, b);
          program.op(width | GetParam().code | BPF_X, left, right, GetParam().offset, 0);
          program.keep(left);
          program.keep(right);
        }
      expect_same(program);
    }
  }
}

TEST_P(Arithmetic, OfARegisterAndANumber) {
  SKIP_WITHOUT_UPROBES();
  const bool is_shift =
      GetParam().code == BPF_LSH || GetParam().code == BPF_RSH || GetParam().code == BPF_ARSH;
  for (uint8_t width : {BPF_ALU64, BPF_ALU}) {
    Program program;
    for (int32_t number : {1, 2, 7, 31, 1000, -1, -128, INT32_MIN, INT32_MAX})
      for (uint64_t a : kOperands) {
        if (is_shift && (number < 0 || number > 31)) continue;
        program.load(3, a);
        program.op(width | GetParam().code | BPF_K, 3, 0, GetParam().offset, number);
        program.keep(3);
      }
    expect_same(program);
  }
}

INSTANTIATE_TEST_SUITE_P(Instructions, Arithmetic,
                         testing::Values(Operation{"add", BPF_ADD}, Operation{"sub", BPF_SUB},
                                         Operation{"mul", BPF_MUL}, Operation{"div", BPF_DIV},
                                         Operation{"mod", BPF_MOD}, Operation{"sdiv", BPF_DIV, 1},
                                         Operation{"smod", BPF_MOD, 1}, Operation{"or", BPF_OR},
                                         Operation{"and", BPF_AND}, Operation{"xor", BPF_XOR},
                                         Operation{"lsh", BPF_LSH}, Operation{"rsh", BPF_RSH},
                                         Operation{"arsh", BPF_ARSH}, Operation{"mov", BPF_MOV}),
                         [](const auto& given) { return given.param.name; });

TEST(Instructions, MoveNegateAndSwap) {
  SKIP_WITHOUT_UPROBES();
  Program program;
  for (uint64_t a : kOperands) {
    auto with = [&](uint8_t code, int src, int16_t offset, int32_t imm) {
      program.load(4, a);
      program.op(code, 4, src, offset, imm);
      program.keep(4);
    };
    for (uint8_t width : {BPF_ALU64, BPF_ALU}) {
      with(width | BPF_NEG, 0, 0, 0);
      for (int16_t bits : {8, 16, 32})
        if (width == BPF_ALU64 || bits < 32) with(width | BPF_MOV | BPF_X, 4, bits, 0);
    }
    for (int32_t bits : {16, 32, 64}) {
      with(BPF_ALU | BPF_END | BPF_TO_LE, 0, 0, bits);
      with(BPF_ALU | BPF_END | BPF_TO_BE, 0, 0, bits);
      with(BPF_ALU64 | BPF_END, 0, 0, bits);
    }
  }
  expect_same(program);
}

TEST(Instructions, Jump) {
  SKIP_WITHOUT_UPROBES();
  for (uint8_t width : {BPF_JMP, BPF_JMP32})
    for (uint8_t condition : {BPF_JEQ, BPF_JNE, BPF_JGT, BPF_JGE, BPF_JLT, BPF_JLE, BPF_JSGT, BPF_JSGE,
                              BPF_JSLT, BPF_JSLE, BPF_JSET}) {
      Program program;
      for (uint64_t a : kOperands) {
        for (uint64_t b : kOperands) {
          program.load(1, a);
          program.load(2, b);
          program.mov(3, 0);
          program.op(width | condition | BPF_X, 1, 2, 1, 0).mov(3, 1);
          program.keep(3);
        }
        for (int32_t number : {0, 1, 0x80, -1, INT32_MIN}) {
          program.load(1, a);
          program.mov(3, 0);
          program.op(width | condition | BPF_K, 1, 0, 1, number).mov(3, 1);
          program.keep(3);
        }
      }
      program.op(BPF_JMP | BPF_JA, 0, 0, 0, 0);
      program.keep(3);
      expect_same(program);
    }
}

TEST(Instructions, LoadAndStore) {
  SKIP_WITHOUT_UPROBES();
  Program program;
  constexpr uint8_t kSigned = 0x80;
  for (uint64_t a : kOperands)
    for (uint8_t size : {BPF_B, BPF_H, BPF_W, BPF_DW}) {
      program.load(1, a);
      program.load(2, 0x5555555555555555);
      program.store(10, -16, 2);
      program.op(BPF_STX | BPF_MEM | size, 10, 1, -16, 0);
      program.op(BPF_LDX | BPF_MEM | BPF_DW, 3, 10, -16, 0);
      program.keep(3);
      program.op(BPF_LDX | BPF_MEM | size, 4, 10, -16, 0);
      program.keep(4);
      if (size != BPF_DW) {
        program.op(BPF_LDX | kSigned | size, 5, 10, -16, 0);
        program.keep(5);
      }
      program.store(10, -16, 2);
      program.op(BPF_ST | BPF_MEM | size, 10, 0, -16, int32_t(a));
      program.load(0, 0);
      program.op(BPF_LDX | BPF_MEM | BPF_DW, 0, 10, -16, 0);
      program.keep(0);
    }
  expect_same(program);
}

TEST(Instructions, ChangeMemoryAtomically) {
  SKIP_WITHOUT_UPROBES();
  for (uint8_t size : {BPF_W, BPF_DW})
    for (int32_t operation : {BPF_ADD, BPF_OR, BPF_AND, BPF_XOR, BPF_ADD | BPF_FETCH, BPF_OR | BPF_FETCH,
                              BPF_AND | BPF_FETCH, BPF_XOR | BPF_FETCH, int(BPF_XCHG), int(BPF_CMPXCHG)})
      for (int operand : {0, 2, 3}) {
        if (operand == 0 && operation == BPF_CMPXCHG) continue;
        Program program;
        for (uint64_t a : kOperands)
          for (uint64_t b : {uint64_t(0), uint64_t(1), uint64_t(0xfffffffff), uint64_t(0x8000000080000000)}) {
            program.load(1, a);
            program.store(10, -16, 1);
            program.load(0, 0x80000000);
            program.load(operand, b);
            program.op(BPF_STX | BPF_ATOMIC | size, 10, operand, -16, operation);
            program.keep(0);
            program.keep(operand);
            program.op(BPF_LDX | BPF_MEM | BPF_DW, 4, 10, -16, 0);
            program.keep(4);
          }
        expect_same(program);
      }
}

// A function of the code itself, with a frame of its own, and one that the runtime calls back.
TEST(Instructions, CallFunctions) {
  SKIP_WITHOUT_UPROBES();
  codegen::Program whole;
  {
    Bytecode code;
    code.store_u32(10, -8, 0).mov_reg(2, 10).add(2, -8).map(1, 0).call(BPF_FUNC_map_lookup_elem);
    code.skip_unless_zero(0, 2).done();
    code.mov_reg(7, 0).mov(8, 13).mov(1, 5).mov(2, 6);
    code.op(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 4);  // -> function
    code.store(7, 0, 0).store(7, 8, 8).done();
    // function: changes R8, uses its frame
    code.mov_reg(8, 1).op(BPF_ALU64 | BPF_MUL | BPF_X, 8, 2, 0, 0).store(10, -8, 8).load(0, 10, -8);
    code.op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    whole.maps.push_back({"results", codegen::MapKind::Array, 4, 16, 1});
    whole.codes.push_back(code.code("code", codegen::CodeKind::RunOnce));
  }
  OwnProcess process(whole);
  process.run(0);
  EXPECT_EQ(process.total(0, 0, 0), 30u);
  EXPECT_EQ(process.total(0, 0, 8), 13u);
}

}  // namespace
}  // namespace uscope::engine::inproc
