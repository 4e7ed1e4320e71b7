// The border between the code that runs inside the target (code/, runtime/) and what brings it there
// (target/). Plain data and one interface: which memory the code needs, what a patched place must do, and the
// bytes for it. Nothing here touches a process: whoever calls maps, writes and patches, and says where things
// are.
//
// The order of things: compile a program (code/target_code.h) -> map what its MemoryPlan asks for -> write
// the shared and the private region's first bytes -> for each cluster of text, map a code area near it, write
// its fixed part, then the stubs that its StubEmitter makes -> patch jumps to the stubs' entries.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "process/seccomp_filter.h"
#include "x86/relocate.h"
#include "x86/window.h"

namespace uscope::engine::inproc {

// What the code needs in the target. Sizes are whole pages; most of it is never touched.
struct MemoryPlan {
  // A memfd, MAP_SHARED, read and write, anywhere in the target and in uscope. Starts as zeroes.
  uint64_t shared_bytes = 0;
  // Private anonymous, read and write, MAP_NORESERVE, anywhere in the target. The first kWipedBytes are
  // MADV_WIPEONFORK: a forked child finds zeroes there, and its probes do nothing. (Where that fails, the
  // target must be refused.)
  uint64_t private_bytes = 0;
  // The fixed part of each code area, before the stubs. Code areas are read and execute for the target,
  // within 2 GiB of the text they serve; any number of them.
  uint64_t code_bytes = 0;
  // It loads from addresses that it cannot know: MemoryPlaces::load_gate makes that cheap.
  bool reads_memory = false;
  // What it asks of the kernel in the target's name.
  std::vector<process::CallToCome> system_calls;
};

// Memory of the target that probes may load from without asking the kernel: see target/known_memory.h.
struct KnownMemory {
  struct Range {
    ProcessAddr begin, end;
  };
  Range first_stack;            // the first thread's, up to its top; or empty
  Range may_grow;               // where that stack may grow to; the stack itself is in it
  std::vector<Range> constant;  // the largest first
};

// Where they came to lie, and what else the code must know of the process.
struct MemoryPlaces {
  ProcessAddr shared;
  ProcessAddr private_memory;
  KnownMemory known;
  std::optional<ProcessAddr> load_gate;  // see process/load_gate.h; in place before a header speaks of it
  std::optional<ProcessAddr> maps;       // the MapInfos, where they are not those in shared memory
  uint32_t pid = 0;                      // as the process sees itself
};

// One probe at an instruction.
struct SiteProbe {
  // Runs before this instruction, which starts in the window or right behind it.
  ProcessAddr address;
  ProcessAddr shown;  // what the probe takes for its place: a little before, perhaps; 0: `address`
  uint32_t code = 0;  // index into Program::codes
  uint64_t cookie = 0;
  bool flags_dead = false;         // nobody reads the arithmetic flags before they are written (x86/liveness)
  bool red_zone_in_use = true;     // the 128 bytes below rsp may hold data
  std::optional<uint8_t> only_if;  // a conditional tail jump's condition: runs only where it will jump
  // What is from `shown` to here has run: rsp here minus rsp there; and, if the instruction before this one
  // is all that has set the flags which are alive here, that one, to be run again behind the probe instead of
  // keeping them.
  int32_t stack_change = 0;
  Bytes again{};
};

// One jump written over one window. A small function's entry and its exits may share a window.
struct PlannedPatch {
  x86::Window window;             // in the process's addresses
  Bytes bytes;                    // [window.start, window.end), as they are in the process
  std::vector<SiteProbe> probes;  // by address; those at one address run in this order
};

struct EmittedStub {
  ProcessAddr entry;  // where the patch must lead
  uint32_t size = 0;
  // Where each instruction of the window went: offsets from window.start and from `entry`. A thread found at
  // `original` can go on at `copy`; where a probe sits on the instruction, `copy` is the probe.
  std::vector<x86::Relocated::Place> places;
  // The parts of the stub, as offsets from `entry`, that belong to probes and not to moved instructions: a
  // thread found there is in our code and has to leave it by itself.
  struct ProbePart {
    uint32_t begin = 0, end = 0;
  };
  std::vector<ProbePart> probe_parts;
};

// Writes stubs for the sites that one code area serves. Cheap: some hundred nanoseconds a site.
class StubEmitter {
 public:
  virtual ~StubEmitter() = default;

  // No stub for this patch is longer.
  virtual size_t most_bytes(const PlannedPatch& patch) const = 0;
  // Appends the stub's bytes to `out`; they are to be written at `where`, in the emitter's code area. The
  // Error says why the window's instructions cannot be moved.
  virtual Result<EmittedStub> emit(const PlannedPatch& patch, ProcessAddr where,
                                   std::vector<uint8_t>& out) = 0;
};

}  // namespace uscope::engine::inproc
