// Patch windows: the instructions that a jump written over a place would cover, and whether that can be done.
// A window is right only if nothing ever jumps into its middle. Decides on one function; where the patch
// leads and what lies in the holes between functions is the engine's business.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "x86/encode.h"
#include "x86/flow.h"

namespace uscope::x86 {

struct Window {
  uint64_t start = 0;
  uint64_t end = 0;                       // of the last instruction covered; the patch may be shorter
  std::vector<Instruction> instructions;  // to be moved; those before the site are absorbed
  uint64_t padding = 0;                   // bytes behind them that nothing executes, also overwritten

  uint64_t size() const { return end - start + padding; }
};

struct WindowRefusal {
  enum class Reason : uint8_t {
    no_instruction,   // nothing known starts at the site
    jumped_into,      // a leader lies inside
    function_ends,    // too little room before the end
    call_returns,     // a call inside would return into the window
    leaders_unknown,  // the function's flow is incomplete: something unseen may jump inside
  };
  Reason reason = Reason::no_instruction;
  uint64_t address = 0;

  std::string text() const;
};

// The window that begins at the site. `padding_behind`: how many bytes behind the function's end are known to
// be unused.
std::expected<Window, WindowRefusal> window_at(const Flow& flow, uint64_t site,
                                               unsigned need = near_jump_size, uint64_t padding_behind = 0);

// The window whose last instruction is the site's: for exits, which are often the last byte of a block. Takes
// in the padding behind it and then as few instructions before it as needed.
std::expected<Window, WindowRefusal> window_before(const Flow& flow, uint64_t site,
                                                   unsigned need = near_jump_size,
                                                   uint64_t padding_behind = 0);

// The window that ends where an instruction begins: its last one runs into that. For places that are jumped
// to, where only who comes from above is meant.
std::expected<Window, WindowRefusal> window_up_to(const Flow& flow, uint64_t end,
                                                  unsigned need = near_jump_size);

}  // namespace uscope::x86
