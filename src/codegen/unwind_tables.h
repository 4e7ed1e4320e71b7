// The tables by which stacks are unwound inside a probe, as the words that lie in the program's maps: read by
// the eBPF unwinder (unwind.h) and by the in-process engine's runtime, which is built without a library. The
// session fills them from image's tables (session/unwinding); nobody else may guess them. All little-endian,
// as the processor is.
#pragma once

#include <compare>
#include <cstdint>

namespace uscope::codegen {

// A file, as the kernel tells files apart: key of the map of images.
struct ImageKey {
  uint64_t inode = 0;
  uint64_t device = 0;  // the kernel's dev_t: major << 20 | minor

  friend auto operator<=>(const ImageKey&, const ImageKey&) = default;
};

// Its value: the image's part of the rows, or what stands in for it.
struct ImageEntry {
  static constexpr uint32_t kFramePointers = 1;  // no table: its code keeps frame pointers
  static constexpr uint32_t kAsked = 2;          // met, reported, and not here yet

  uint32_t first_row = 0, row_count = 0;
  uint32_t flags = 0;
  uint32_t unused = 0;
};

// Element of the map of rows: holds from this offset in the file on. An image's first is at 0.
struct RowEntry {
  uint32_t offset = 0;
  uint32_t rule = 0;
};

// Element of the map of rules. Registers by DWARF's numbers.
struct RuleEntry {
  static constexpr int16_t kUnchanged = INT16_MIN, kLost = INT16_MIN + 1;
  static constexpr uint8_t kFromCfa = 0xff;
  static constexpr uint8_t kSignalFrame = 1;
  enum Kind : uint8_t { Unknown = 0, End = 1, Register = 2, Dereferenced = 3, Plt = 4, OtherStack = 5 };

  uint8_t kind = Unknown;
  uint8_t base = 7, saved_base = kFromCfa, flags = 0;
  int32_t offset = 0, addend = 0;
  int16_t saved[6] = {kUnchanged, kUnchanged, kUnchanged, kUnchanged, kUnchanged, kUnchanged};
  int16_t return_address = -8;
  int16_t unused = 0;
  int32_t padding = 0;
};
static_assert(sizeof(RuleEntry) == 32);

// The first rules are the same for every program.
constexpr uint32_t kUnknownRule = 0, kFramePointerRule = 1, kLeafRule = 2, kFirstImageRule = 3;

// Every mapping that a stack led through: its file is known when the process is gone.
struct MappingKey {
  uint64_t process = 0;  // the thread group, as the first pid namespace counts
  uint64_t start = 0;
};
struct MappingEntry {
  ImageKey image;
  uint64_t start = 0, end = 0;
  uint64_t offset = 0;  // in the file, of `start`
};

// For an engine that unwinds by itself, in one process (kUnwindStack): the code that the process has mapped,
// by address. Element of the map of code, which holds two lists: one in use, one to be written next.
struct CodeRange {
  uint64_t start = 0, end = 0;
  uint64_t offset = 0;  // in the file, of `start`
  uint32_t first_row = 0, row_count = 0;
  uint16_t flags = 0;  // as ImageEntry's
  uint16_t is_file = 0;
  uint32_t since = 0;  // which list was the first to have it; the very first is 1
};
static_assert(sizeof(CodeRange) == 40);
constexpr uint32_t kMostCodeRanges = 8192;  // in each list

// The only element of the map of state.
struct UnwindState {
  static constexpr uint32_t kChecked = 8;

  uint64_t current =
      0;               // how many times the list was renewed << 32 | how many ranges it has; odd: the second
  uint64_t asked = 0;  // by the engine: an address was met that is in no range
  uint32_t rows = 0, rules = 0, code = 0, events = 0;  // the maps' numbers
  uint32_t question = 0, unused = 0;                   // the record's kind (event/plan.h) that asks
  uint64_t no_code[kChecked] = {};                     // addresses that were asked for and lead nowhere
};

}  // namespace uscope::codegen
