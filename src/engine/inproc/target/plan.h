// Which bytes to change for a set of probe sites of one image: the ladder of ways to get from an instruction
// to a stub. Pure: looks at code, touches no process. From the best to the last resort:
//   a 5-byte jump over the instruction and its successors (and unused filler behind them);
//   the same from a little before the site, its predecessors moved along (exits, often the last byte);
//   a 2-byte jump to filler nearby that holds the 5-byte jump;
//   a 2-byte jump to a place nearby whose own instructions are moved away to make room for it;
//   for an exit that jumps lead to, patches of all of these jumps, and of what runs into it;
// else the site is refused, with the reason. A function's first instruction stays where it is if what it does
// can be undone for the probe (an endbr64, a push, …): the jump goes behind it, and does not meet another
// tool's breakpoint. Sites whose windows overlap share one, so that a tiny function's entry and exits are one
// patch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/inproc/target/text_facts.h"
#include "x86/registers.h"
#include "x86/window.h"

namespace uscope::engine::inproc {

struct SiteRequest {
  ImageAddr address;
  uint32_t code = 0;  // index into Program::codes
  uint64_t cookie = 0;
  std::optional<uint8_t> only_if = std::nullopt;  // see engine::Site
  bool needs_all = false;
  x86::RegisterSet read = x86::all_registers;  // that the code reads, of a function's entry
};

struct PlannedProbe {
  // Where it sits in the end: in front of this instruction. Where the window ends, only who comes through the
  // window passes it.
  ImageAddr address;
  size_t site = 0;  // index into the requests; a site has one probe, or one on every way to it
  bool flags_dead = false;
  bool red_zone_in_use = true;
  std::optional<uint8_t> only_if = std::nullopt;
  bool is_on_a_way = false;
  // It stands for the function's entry, the site, and is behind its first instruction. Nothing may lead here,
  // or to what is between, but the entry.
  struct Behind {
    uint32_t distance = 0;     // from the entry to here
    uint32_t last_length = 0;  // of the instruction before this one
    int32_t stack_change = 0;  // rsp here minus rsp at the entry
    Bytes again{};  // the instruction before, to be run again for the flags that it has set; mostly none
  };
  std::optional<Behind> behind{};
};

struct PatchPlan {
  x86::Window window;                // in the image's addresses
  Bytes bytes;                       // of the window's instructions
  std::vector<PlannedProbe> probes;  // by address, then in the requests' order
  // Where the near jump stands; the window itself gets a short one.
  struct Hole {
    ImageAddr address;
    Bytes bytes;  // filler, if nothing is evicted
    // Instructions moved elsewhere to make room: a near jump to their copy, then ours.
    struct Evicted {
      x86::Window window;
      Bytes bytes;
    };
    std::optional<Evicted> evicted;
  };
  std::optional<Hole> hole;
};

// The rung of the ladder that a probe stands on.
enum class Tactic : uint8_t {
  in_place,
  into_padding,
  absorbing,
  short_jump_to_padding,
  short_jump_to_room,
  on_the_ways
};
Tactic tactic_of(const PatchPlan& patch, const PlannedProbe& probe);

struct SiteRefusal {
  size_t site = 0;
  std::string reason;
};

struct ImagePlan {
  std::vector<PatchPlan> patches;  // by address, not overlapping
  std::vector<SiteRefusal> refused;

  // Takes the probes of these sites out, by their number, and the patches that then have none.
  void drop(const std::vector<bool>& sites);
};

ImagePlan plan_image(TextFacts& facts, std::span<const SiteRequest> sites);

}  // namespace uscope::engine::inproc
