#include "engine/kernel/probed_instruction.h"

#include <gtest/gtest.h>

#include <vector>

namespace uscope::engine::kernel {
namespace {

bool takes(const std::vector<uint8_t>& code) { return can_probe(code); }

// Each was tried on Linux 6.18.
TEST(ProbedInstruction, WhatTheKernelTakes) {
  EXPECT_TRUE(takes({0x55}));                                // push
  EXPECT_TRUE(takes({0xf3, 0x0f, 0x1e, 0xfa}));              // endbr64
  EXPECT_TRUE(takes({0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0}));  // of FS
  EXPECT_TRUE(takes({0xf2, 0xc3}));                          // bnd ret
  EXPECT_TRUE(takes({0x67, 0xe8, 1, 1, 1, 1}));              // call with an address size
  EXPECT_TRUE(takes({0x66, 0x90}));                          // nop of two bytes
  EXPECT_TRUE(takes({0x0f, 0x05}));                          // syscall
  EXPECT_TRUE(takes({0xc5, 0xf8, 0x10, 0xc0}));              // vmovups
  EXPECT_TRUE(takes({0x62, 0xf1, 0x7c, 0x48, 0x10, 0xc0}));  // the same of 64 bytes
  EXPECT_TRUE(takes({0x66, 0x0f, 0xef, 0xc0}));              // pxor
}

TEST(ProbedInstruction, WhatItDoesNot) {
  EXPECT_FALSE(takes({0xf0, 0xff, 0x0f}));                             // lock decl
  EXPECT_FALSE(takes({0x2e, 0x74, 1}));                                // branch hint
  EXPECT_FALSE(takes({0x3e, 0xff, 0xe0}));                             // notrack jmp
  EXPECT_FALSE(takes({0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}));  // cs nopw
  EXPECT_FALSE(takes({0xcc}));                                         // int3
  EXPECT_FALSE(takes({0xf4}));                                         // hlt
  EXPECT_FALSE(takes({0x48, 0x6f}));                                   // outs
  EXPECT_FALSE(takes({0x8e, 0xd0}));                                   // mov to SS
  EXPECT_FALSE(takes({0x66, 0x66, 0x48, 0xe8, 1, 1, 1, 1}));           // call with an operand size
  EXPECT_FALSE(takes({0x66, 0x0f, 0x84, 1, 1, 1, 1}));                 // jump with one
  EXPECT_FALSE(takes({0xc5, 0xfe, 0x6f, 0x07}));                       // vmovdqu: 6f is outs
  EXPECT_FALSE(takes({0xc4, 0xe2, 0x7d, 0x17, 0xc0}));                 // vptest: 17 is pop SS
  EXPECT_FALSE(takes({0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x07}));           // vmovdqu64
}

TEST(ProbedInstruction, AnEndIsLeftToTheKernel) {
  EXPECT_TRUE(takes({}));
  EXPECT_TRUE(takes({0x66}));
  EXPECT_TRUE(takes({0xc5, 0xfe}));
  EXPECT_TRUE(takes({0x8e}));
}

}  // namespace
}  // namespace uscope::engine::kernel
