// Stubs: what a patched place jumps to. The window's instructions, moved, with calls of the probes' bodies in
// front of those that have probes. Some hand-encoded bytes each, since there may be a hundred thousand.
#pragma once

#include <vector>

#include "engine/inproc/stub_emitter.h"

namespace uscope::engine::inproc {

struct BodyEntry {
  uint64_t address = 0;
  bool needs_site = false;
};

class SiteStubs : public StubEmitter {
 public:
  explicit SiteStubs(std::vector<BodyEntry> bodies) : bodies_(std::move(bodies)) {}

  size_t most_bytes(const PlannedPatch& patch) const override;
  Result<EmittedStub> emit(const PlannedPatch& patch, ProcessAddr where, std::vector<uint8_t>& out) override;

 private:
  std::vector<BodyEntry> bodies_;  // by code
};

}  // namespace uscope::engine::inproc
