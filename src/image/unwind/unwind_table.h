// How to leave any function of an image: at each instruction, where the caller's frame, return address and
// preserved registers are. Made from .eh_frame, .debug_frame or Go's pclntab, as rows in order of file offset
// and rules that many rows share: plain numbers that the unwinder inside a probe's code reads (codegen/unwind
// says how), so nothing here is ever interpreted again. x86-64 only. Owns its rows; keeps no view of the
// file.
//
// What cannot be expressed by a rule is Unknown: a stack ends there and says so. It is never guessed.
#pragma once

#include <cstdint>
#include <vector>

#include "image/elf/elf_file.h"
#include "image/go/pclntab.h"

namespace uscope::image {

enum class UnwindKind : uint8_t {
  Unknown = 0,       // code whose frame nobody described
  End = 1,           // the outermost function: there is no caller
  Register = 2,      // CFA = base + offset
  Dereferenced = 3,  // CFA = *(base + offset) + addend
  Plt = 4,           // CFA = base + offset + 8 from the addend'th byte of each 16 on
  OtherStack = 5,    // the caller's frames are on another stack (Go's system stack)
};

// Registers that a function preserves, in the order of UnwindRule::saved.
constexpr uint8_t kSavedRegisters[] = {3, 6, 12, 13, 14, 15};  // DWARF's numbers: rbx rbp r12 r13 r14 r15
constexpr size_t kSavedRegisterCount = 6;
constexpr uint8_t kStackPointer = 7, kFramePointer = 6, kReturnColumn = 16;

struct UnwindRule {
  static constexpr int16_t kUnchanged = INT16_MIN;
  static constexpr int16_t kLost = INT16_MIN + 1;
  static constexpr uint8_t kFromCfa = 0xff;
  static constexpr uint8_t kSignalFrame = 1;  // every register is what an interrupted instruction had

  UnwindKind kind = UnwindKind::Unknown;
  uint8_t base = kStackPointer;   // DWARF's number of a register
  uint8_t saved_base = kFromCfa;  // what `saved` counts from: the CFA, or this register
  uint8_t flags = 0;
  int32_t offset = 0, addend = 0;
  // Where the caller's registers and (with kSignalFrame only) its instruction are: kUnchanged, kLost, or an
  // offset from saved_base. Without kSignalFrame return_address counts from the CFA.
  int16_t saved[kSavedRegisterCount] = {kUnchanged, kUnchanged, kUnchanged,
                                        kUnchanged, kUnchanged, kUnchanged};
  int16_t return_address = -8;
  int16_t unused = 0;
  int32_t padding = 0;

  friend bool operator==(const UnwindRule&, const UnwindRule&) = default;
};
static_assert(sizeof(UnwindRule) == 32);

// Holds from this file offset to the next row's.
struct UnwindRow {
  uint32_t offset = 0;
  uint32_t rule = 0;
};

struct UnwindTable {
  std::vector<UnwindRow> rows;    // by offset, the first at 0; empty: the image describes no code
  std::vector<UnwindRule> rules;  // [0] is Unknown
  bool is_partial = false;        // something was damaged or too much

  const UnwindRule& at(uint64_t file_offset) const;
};

// .eh_frame, and .debug_frame where it adds functions; `debug_file` may hold a .debug_frame too. Go code that
// has neither is described by `go`. Bounded in time and memory by the bytes given, and by a number of rows
// that no honest image of 4 GB reaches.
UnwindTable read_unwind_table(const ElfFile& file, const ElfFile* debug_file = nullptr,
                              const Pclntab* go = nullptr);

}  // namespace uscope::image
