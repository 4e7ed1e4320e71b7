// From the plan of an image to the patches of one loading of it: shifts addresses to where the image lies in
// the process, has the stubs made, and works out the bytes of the jumps. Reads the process's code to see that
// it is what the file says; changes nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/inproc/stub_emitter.h"
#include "engine/inproc/target/patch.h"
#include "engine/inproc/target/plan.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

struct StubArea {
  ProcessAddr start;             // of the first stub; on a 16-byte boundary
  uint64_t size = 0;             // of the room for stubs
  std::vector<uint8_t> bytes{};  // the stubs made so far
};

struct BuiltPatches {
  std::vector<Patch> patches;  // by address
  std::vector<SiteRefusal> refused;
  std::vector<std::pair<ProcessAddr, size_t>> sites_at;  // which patch (address) serves which site
};

// Where an image lies in the process: its shift (process address minus image address), and the spans of code
// that are there. A second loading may hold a part of the file only (V8 maps its built-in functions a second
// time).
struct LoadedCode {
  uint64_t bias = 0;
  std::vector<AddressSpan> spans;
};

// Patches of code that is not in this loading are left out without a word.
BuiltPatches build_patches(const ImagePlan& plan, std::span<const SiteRequest> sites,
                           const LoadedCode& loaded, const process::RemoteMemory& memory,
                           StubEmitter& emitter, StubArea& area);

// The sites whose code is not what the plan was made of: another tracer's breakpoint is there, a kernel's
// uprobe.
std::vector<SiteRefusal> changed_code(const ImagePlan& plan, const LoadedCode& loaded,
                                      const process::RemoteMemory& memory);

// Room that the stubs of a plan take at most.
uint64_t most_stub_bytes(const ImagePlan& plan, std::span<const SiteRequest> sites,
                         const StubEmitter& emitter);

}  // namespace uscope::engine::inproc
