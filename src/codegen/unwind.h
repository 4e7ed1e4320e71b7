// The unwinder as eBPF: functions that a probe's code has helpers call back, one frame a call. They walk the
// stack of the current thread by the tables of unwind_maps.h, so a stack is right where the program keeps no
// frame pointers, and can be a map's key at once. docs/decisions/stacks.md says why it is done here.
//
// Two pieces of memory carry the state. UnwindFrame is on the code's stack, as a callback's argument must be;
// UnwindBlock is in scratch memory: registers by DWARF's numbers, then the stack's value as event/aggregate.h
// has it.
#pragma once

#include "codegen/assembler.h"
#include "codegen/unwind_maps.h"

namespace uscope::codegen {

struct UnwindFrame {
  static constexpr int32_t kBlock = 0;     // address of the UnwindBlock
  static constexpr int32_t kAddress = 8;   // the instruction to find the mapping of
  static constexpr int32_t kMapping = 16;  // a MappingEntry: of the last one found
  static constexpr int32_t kInode = 16, kStart = 32, kEnd = 40, kOffset = 48;
  static constexpr int32_t kIsCode = 56;      // whether it is executable
  static constexpr int32_t kFileOffset = 64;  // of kAddress
  static constexpr int32_t kDepth = 72;       // frames that there is room for
  static constexpr int32_t kIsEntry = 80;     // the return address is on top of the stack
  static constexpr uint64_t kSize = 88;
};

struct UnwindBlock {
  static constexpr int32_t kRegisters = 0;
  static constexpr int32_t kInstruction = 128;
  static constexpr int32_t kValid = 136;    // which registers are known, a bit each
  static constexpr int32_t kIsExact = 144;  // the instruction is no return address
  static constexpr int32_t kStack = 152;    // the value
  static constexpr int32_t kProcess = 152, kEnd = 156, kCount = 160, kAddresses = 168;
  static constexpr uint64_t kSize = 152;  // without the value
};

// In a stack's address: the instruction itself was interrupted or probed, not the one behind a call.
constexpr int32_t kExactBit = 63;

// What bpf_loop calls for each frame: (index, UnwindFrame*) -> 0 to go on, 1 to stop.
Assembler unwind_step(const UnwindMaps& maps, uint32_t events_map, uint32_t mapping_function);
// What bpf_find_vma calls: (task, vma, UnwindFrame*).
Assembler unwind_mapping(const VmaLayout& layout);

}  // namespace uscope::codegen
