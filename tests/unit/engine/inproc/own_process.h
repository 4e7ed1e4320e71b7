// Runs compiled code in the test's own process: maps what the code's plan asks for, patches functions of the
// test by hand, and takes the patches out at the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/generate.h"
#include "engine/inproc/code/target_code.h"
#include "engine/inproc/runtime/layout.h"
#include "engine/inproc/target/build_patches.h"

namespace uscope::engine::inproc {

// A script as the session would compile it, less what needs files.
Result<codegen::Compiled> compile_script(const std::string& text);

class OwnProcess {
 public:
  // Aborts the test when something fails.
  explicit OwnProcess(const codegen::Program& program);
  ~OwnProcess();
  OwnProcess(const OwnProcess&) = delete;

  struct Probe {
    uint32_t code = 0;
    uint64_t cookie = 0;
    bool flags_dead = false;
    bool red_zone_in_use = true;
  };
  // Before the function's first instruction (behind an endbr64).
  void patch_entry(const void* function, const Probe& probe);
  // Before its first RET, and before its first instruction too where `entry` is given.
  void patch_exit(const void* function, const Probe& probe);
  void patch(const void* function, const std::vector<Probe>& at_entry, const std::vector<Probe>& at_exit);
  // As the engine does it: planned, built and written. Returns what was.
  std::vector<Patch> patch_as_planned(TextFacts& facts, std::span<const SiteRequest> sites);
  void unpatch();

  // Reads go through it from now on, see ReadableMemory::load_gate.
  void set_load_gate(uint64_t gate);

  // The code as uscope itself runs BEGIN.
  void run(uint32_t code);

  std::span<uint8_t> shared() const { return shared_; }
  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(shared_.data()); }
  const TargetCode& code() const { return *code_; }
  MapInfo* map(uint32_t number) const;
  ThreadBlock* block(uint32_t index) const;
  // Hits that were not handled, of all threads.
  uint64_t dropped() const;
  // Sum over all threads of the u64 at `offset` of the value at a u64 key (or index).
  uint64_t total(uint32_t map, uint64_t key = 0, uint32_t offset = 0) const;
  // As fork() leaves the private memory.
  void wipe_private();

 private:
  struct Patched {
    uint8_t* at;
    std::vector<uint8_t> old;
  };
  std::unique_ptr<TargetCode> code_;
  MemoryPlaces places_;
  std::span<uint8_t> shared_;
  uint8_t* private_ = nullptr;
  uint8_t* area_ = nullptr;
  uint64_t area_bytes_ = 0, area_used_ = 0;
  std::unique_ptr<StubEmitter> emitter_;
  std::vector<Patched> patched_;
};

}  // namespace uscope::engine::inproc
