// Where functions' prologues end, and how the frame lies from there on. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "image/dwarf/frame.h"
#include "image/dwarf/unit.h"

namespace uscope::image::dwarf {

// Where the line table says that prologues end; gcc's does not, its second row of a function is there.
// Remembers one unit.
class PrologueEnds {
 public:
  std::optional<uint64_t> between(const Unit& unit, uint64_t low, uint64_t high);

 private:
  const Unit* unit_ = nullptr;
  std::vector<uint64_t> marked_, rows_;
};

// The CFA in the body of the function that begins at `entry`, as its registers are there. Nothing where that
// is not certain.
std::optional<CfaRule> rule_in_body(const FrameTable& frames, uint64_t entry,
                                    std::optional<uint64_t> prologue_end);

}  // namespace uscope::image::dwarf
