// Jumps and calls into the middle of bytes to be patched, wherever they come from: hand-written assembly goes
// from one function on in another (mempcpy three bytes into memcpy), and neither function's own flow shows it
// to whoever patches the other. Found by looking at every byte of the code as if an instruction began there;
// the few that lead into such bytes are then looked at properly. Pure; uses several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/inproc/target/text_facts.h"
#include "x86/flow.h"

namespace uscope::engine::inproc {

// Bytes that something must not lead to: [begin, end).
struct Interior {
  uint64_t begin = 0, end = 0;
};

struct CrossJump {
  uint64_t from = 0, to = 0;
  // It may be none: an entry of what may be a table, bytes that may be an instruction. A real one leads to
  // the start of an instruction.
  bool is_guess = false;
  // A guess that is known by the very address: a number that is the same.
  bool is_pointer = false;
};

struct CrossJumpSearch {
  // In a large text it is enough to look around the places to patch: code of one object file lies together,
  // and only there labels inside of functions are known.
  std::vector<x86::CodeRange> text;
  // Whether an instruction really begins at an address and leads there. Asked from several threads.
  std::function<bool(uint64_t from, uint64_t to)> is_branch;
};

// What in the text leads to the interiors.
std::vector<CrossJump> find_cross_jumps(const CrossJumpSearch& search, std::span<const Interior> interiors);

// Whether it would look at an instruction, for what may lead to an address.
bool is_searched(std::span<const x86::CodeRange> text, uint64_t from, uint64_t to);

// The same, and more, where there are many interiors: walks through all pieces of code, and looks through the
// tables that they point to. What is in the text but in no piece is looked at byte by byte, and as a table,
// and so are pieces that data is mixed into. A function that takes the address of a place inside itself is
// said to lead to its own start: all of it has to be looked at.
struct WholeSearch {
  std::vector<x86::CodeRange> text;
  std::vector<TextFacts::Piece> pieces;
  std::vector<x86::CodeRange> data;
  bool has_pointers = false;  // as plain numbers, in the data and in instructions
};

// Numbers that may be pointers to the interiors; all are guesses.
std::vector<CrossJump> find_pointers(std::span<const x86::CodeRange> ranges,
                                     std::span<const Interior> interiors);

std::vector<CrossJump> find_all_jumps(const WholeSearch& search, std::span<const Interior> interiors);

// Whether the instruction at `from`, found by walking through `code` from its start, leads to `to`. Where the
// walk meets what no compiler writes, it may have gone astray in data.
enum class Leads : uint8_t { No, Maybe, Yes };
Leads leads_to(const x86::CodeRange& code, uint64_t from, uint64_t to);

}  // namespace uscope::engine::inproc
