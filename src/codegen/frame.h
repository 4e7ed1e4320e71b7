// Where a code keeps its values: slots of the 512-byte stack, and what does not fit there in scratch memory.
// Allocation is a stack of its own: what was allocated after a mark is free again when the mark is released.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codegen/assembler.h"

namespace uscope::codegen {

constexpr Reg kContext = Reg::R6;
constexpr Reg kScratch = Reg::R9;

// Memory at a register that does not change while the code runs: the stack or scratch memory.
struct Place {
  Reg base = Reg::R10;
  int32_t offset = 0;

  Place at(uint64_t more) const { return {base, offset + int32_t(more)}; }
};

class Frame {
 public:
  struct Mark {
    int32_t stack = 0;
    uint64_t scratch = 0;
  };

  // Eight bytes that nobody keeps anything in across two uses: keys, results of a read.
  static constexpr Place kBrief{Reg::R10, -8};
  // How long the call took, where the code says that it reads that.
  static constexpr Place kTook{Reg::R10, -16};

  explicit Frame(uint64_t scratch_header) : scratch_(scratch_header), most_scratch_(scratch_header) {}

  // Aligned to 8 bytes.
  Place allocate(uint64_t size) {
    uint64_t rounded = std::max<uint64_t>(8, (size + 7) / 8 * 8);
    if (rounded <= kLargestOnStack && stack_ + int32_t(rounded) <= kStackLimit)
      return allocate_stack(rounded);
    return allocate_scratch(rounded);
  }
  Place allocate_scratch(uint64_t rounded) {
    Place place{kScratch, int32_t(std::min<uint64_t>(scratch_, INT32_MAX / 2))};
    scratch_ += rounded;
    most_scratch_ = std::max(most_scratch_, scratch_);
    uses_scratch_ = true;
    return place;
  }
  // What the verifier must be able to follow. The stack keeps some room for these.
  Place allocate_stack(uint64_t rounded) {
    stack_ += int32_t(rounded);
    most_stack_ = std::max(most_stack_, stack_);
    return {Reg::R10, -std::min(stack_, kStackSize)};
  }

  Mark mark() const { return {stack_, scratch_}; }
  void release(Mark mark) {
    stack_ = mark.stack;
    scratch_ = mark.scratch;
  }
  bool uses_scratch() const { return uses_scratch_; }
  uint64_t scratch_bytes() const { return most_scratch_; }
  // The code has functions that helpers call back: they and it share the stack.
  void make_room_for_functions() { stack_size_ = kStackBesideFunctions; }
  bool is_full() const { return most_stack_ > stack_size_; }

 private:
  static constexpr int32_t kStackSize = 496;             // the kernel wants some for may_goto
  static constexpr int32_t kStackBesideFunctions = 400;  // of three at most, 32 each as the kernel counts
  static constexpr int32_t kStackLimit = 320;
  static constexpr uint64_t kLargestOnStack = 128;

  int32_t stack_ = 16;
  int32_t most_stack_ = 16;
  int32_t stack_size_ = kStackSize;
  uint64_t scratch_;
  uint64_t most_scratch_;
  bool uses_scratch_ = false;
};

}  // namespace uscope::codegen
