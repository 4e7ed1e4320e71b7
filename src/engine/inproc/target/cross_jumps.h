// Jumps and calls from one function into the middle of another: hand-written assembly does that (mempcpy goes
// on three bytes into memcpy), and neither function's own flow shows it to whoever patches the other. Found
// by looking at every byte of the code as if an instruction began there; the few that lead into bytes to be
// patched are then looked at properly. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "x86/flow.h"

namespace uscope::engine::inproc {

// Bytes that a patch is to destroy, without its first: [begin, end).
struct Interior {
  uint64_t begin = 0, end = 0;
};

// The addresses in the interiors that some branch in `text` leads to. `is_branch` tells whether an
// instruction really begins at an address, and leads there.
std::vector<uint64_t> find_cross_jumps(std::span<const x86::CodeRange> text,
                                       std::span<const Interior> interiors,
                                       const std::function<bool(uint64_t from, uint64_t to)>& is_branch);

}  // namespace uscope::engine::inproc
