// A compiled program as code for one target: says what memory it needs, and makes the bytes for it once that
// memory has a place. Owns no memory in the target and makes no system call. The same program can be placed
// more than once: near each cluster of patched text, and in uscope's own process, where BEGIN, END and
// interval run.
#pragma once

#include <memory>
#include <span>

#include "codegen/program.h"
#include "engine/inproc/runtime/shared_plan.h"
#include "engine/inproc/stub_emitter.h"

namespace uscope::engine::inproc {

class TargetCode {
 public:
  static Result<std::unique_ptr<TargetCode>> compile(const codegen::Program& program);
  virtual ~TargetCode() = default;

  virtual const MemoryPlan& plan() const = 0;
  // The registers that a code must find as they were at the entry of a function that it is attached to.
  virtual x86::RegisterSet read_at_entry(uint32_t) const { return x86::all_registers; }
  // For the reader (runtime/).
  virtual const SharedPlan& shared_plan() const = 0;

  // Fills in the first bytes of the shared region; `shared` is uscope's own mapping of all of it.
  virtual Status prepare_shared(std::span<uint8_t> shared) const = 0;
  // The first bytes of the private region. Without them every probe is off.
  enum class Process { Target, Own };
  virtual std::vector<uint8_t> private_header(const MemoryPlaces& places,
                                              Process process = Process::Target) const = 0;
  // What followed children need of it beside.
  virtual void tell_children(std::span<uint8_t> shared, const MemoryPlaces& places) const = 0;
  // The fixed part of a code area at `where`: plan().code_bytes of them at most.
  virtual Result<std::vector<uint8_t>> code_area(ProcessAddr where, const MemoryPlaces& places) const = 0;
  // For stubs behind that fixed part, whose calls lead into it.
  virtual std::unique_ptr<StubEmitter> emitter(ProcessAddr area) const = 0;

  // Whether a thread of the target is inside a probe, or was when it was killed there: a part of the private
  // region, from `busy_begin`, every `busy_stride`, `busy_count` of u64 words; any that is not 0 means so.
  struct BusyWords {
    ProcessAddr begin;
    uint64_t stride = 0;
    uint64_t count = 0;
  };
  virtual BusyWords busy_words(const MemoryPlaces& places) const = 0;

  // Where a code's entry lies in a code area, to be called as void(*)() in uscope's own process (RunOnce,
  // Timer).
  virtual ProcessAddr entry_of(uint32_t code, ProcessAddr area) const = 0;
};

}  // namespace uscope::engine::inproc
