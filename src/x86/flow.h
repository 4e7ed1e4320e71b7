// The control flow of one function, from its bytes: which instructions can run, where execution can enter
// from elsewhere (leaders), and how it can leave (exits). Return probes sit on the exits, so the important
// answer is complete(): whether every exit is known, or why not. A Flow refers to the bytes it was made from
// and must not outlive them. Knows nothing of files or processes: whoever calls supplies the bytes, and the
// facts that code alone does not show (landing pads, relocations).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "x86/decode.h"

namespace uscope::x86 {

// A run of code at the address it is loaded or linked at.
struct CodeRange {
  uint64_t address = 0;
  Bytes bytes;

  uint64_t end() const { return address + bytes.size(); }
  bool contains(uint64_t a) const { return a >= address && a - address < bytes.size(); }
};

// What an entry of a switch's table is that leads out of the function's known parts, where the code does not
// say how many entries there are.
enum class OutsideCase : uint8_t {
  none,   // it is no entry: the table has ended before it
  maybe,  // it is one if the table goes on behind it
  part,   // it leads to a part of the function that nothing tells of
};

struct FunctionCode {
  // The first part begins with the entry; others are `.cold` pieces and the like. A piece that is not told of
  // counts as another function: jumping to it is a tail jump, and where it jumps back to is not seen. Whoever
  // patches must therefore name such places in code_pointers (the exits' targets of all functions show them)
  // or supply the piece.
  std::vector<CodeRange> parts;
  // Where execution comes back to by other means than a jump: where exceptions land (.gcc_except_table), and
  // where a Go function goes on after a recovered panic (deferreturn in its pclntab entry).
  std::vector<uint64_t> landing_pads;
  // Other addresses inside that something refers to: relocations, symbols. Those outside of the parts are
  // ignored.
  std::vector<uint64_t> code_pointers;
  // The first part and the filler (nop, int3) behind it, where that is all there is up to the next function.
  // Hand-written code runs through it into that function, which then returns in its place. Optional.
  std::optional<CodeRange> up_to_next;
  // The code is always loaded at these addresses: a number in an instruction may be that of a place inside.
  bool is_fixed = false;
  // Reads the image, for jump tables; empty when it cannot. Pointers must read as they are at run time, that
  // is, with relocations applied. Optional.
  std::function<Bytes(uint64_t address, uint64_t size)> read_image;
  // Optional: then there is none.
  std::function<OutsideCase(uint64_t address)> case_outside;
  // The code that holds an address outside of the parts, if it is one more part of this function. Optional.
  std::function<std::optional<CodeRange>(uint64_t address)> part_at;
  // Whether a call of this function never comes back. Optional: calls are taken to return.
  std::function<bool(uint64_t address)> never_returns;
};

enum class ExitKind : uint8_t {
  ret,                    //
  tail_jump,              // a direct jump out of the function
  conditional_tail_jump,  // leaves only when its condition holds (or counts down, or the transaction aborts)
  indirect_tail_jump,     // jmp *%rax, jmp *8(%rdi), jmp *puts@GOT(%rip)
  no_return,              // ends in a call that does not come back, ud2, hlt
};

struct Exit {
  ExitKind kind = ExitKind::ret;
  uint64_t address = 0;
  uint8_t length = 0;
  uint8_t condition = 0;  // of a conditional_tail_jump by jcc
  uint64_t target = 0;    // of a direct one
};

struct JumpTable {
  uint64_t jump = 0;     // the indirect jump that uses it
  uint64_t address = 0;  // of its first entry
  uint32_t entries = 0;
  uint8_t entry_size = 0;  // 4: offsets from a base; 8: addresses
  bool bounded = false;  // the number of entries is the code's own bound, not how far the entries made sense
};

// Why the exits found may not be all.
enum class Gap : uint8_t {
  none,
  empty,                  // no bytes
  too_large,              // more than analysis is willing to hold
  undecodable,            // execution reaches bytes that are no instruction
  falls_off_end,          // execution reaches the end without a jump or return
  unrecovered_jump,       // an indirect jump stays in the function, and its targets are not known
  table_leaves_function,  // a jump table has an entry outside of the known parts
  overlapping,            // two paths disagree about where instructions begin
  unusual_instruction,    // far jumps and returns
  unreached_label,        // the address of a place inside is taken, and nothing known jumps there
  unreached_exit,  // a return or jump out that nothing known leads to: a landing pad that was not told?
};

class Flow {
 public:
  // Every reachable instruction, by address.
  const std::vector<Instruction>& instructions() const { return instructions_; }
  // Every address that is reached other than by falling into it, sorted: the entry, jump targets, landing
  // pads.
  const std::vector<uint64_t>& leaders() const { return leaders_; }
  const std::vector<Exit>& exits() const { return exits_; }
  const std::vector<JumpTable>& tables() const { return tables_; }
  const std::vector<CodeRange>& parts() const { return parts_; }
  uint64_t entry() const { return parts_.empty() ? 0 : parts_.front().address; }
  // Execution runs off the first part's end and through the filler behind it, which then is part of the part;
  // where to, if that is another function, is told by the exit on its last nop.
  bool runs_through_filler() const { return runs_through_filler_; }

  bool complete() const { return gap_ == Gap::none; }
  Gap gap() const { return gap_; }
  uint64_t gap_address() const { return gap_address_; }
  // "the jump at 0x1234 goes to places that are not known"; empty when complete.
  std::string gap_text() const;

  // The instruction that begins at the address, if one was reached there.
  const Instruction* find(uint64_t address) const;
  bool is_leader(uint64_t address) const { return has_leader(address, address + 1); }
  // Whether a leader lies in [begin, end).
  bool has_leader(uint64_t begin, uint64_t end) const;
  // The instructions that execution comes to an address from, by falling into it or by a direct branch;
  // nothing if there may be other ways.
  std::optional<std::vector<const Instruction*>> ways_to(uint64_t address) const;
  // The bytes from an address to the end of its part; empty when it is in none.
  Bytes bytes_at(uint64_t address) const;

 private:
  friend class FlowBuilder;
  std::vector<CodeRange> parts_;
  std::vector<Instruction> instructions_;
  std::vector<uint64_t> leaders_;
  std::vector<uint64_t> hidden_leaders_;  // those that not only direct branches lead to, sorted
  std::vector<Exit> exits_;
  std::vector<JumpTable> tables_;
  Gap gap_ = Gap::none;
  uint64_t gap_address_ = 0;
  bool runs_through_filler_ = false;
};

Flow analyze(const FunctionCode& code);

}  // namespace uscope::x86
