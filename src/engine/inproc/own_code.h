// The compiled program placed in uscope's own process, where BEGIN, END, interval and signals run it against
// the same shared memory as the target's threads. Unmapped by the destructor. One thread.
#pragma once

#include <span>
#include <vector>

#include "engine/inproc/code/target_code.h"
#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {

class OwnCode {
 public:
  // `shared` is uscope's mapping of the shared memory; both it and `code` must outlive this.
  static Result<std::unique_ptr<OwnCode>> place(const TargetCode& code, std::span<uint8_t> shared);
  OwnCode(const OwnCode&) = delete;
  OwnCode& operator=(const OwnCode&) = delete;
  ~OwnCode();

  void run(uint32_t code) const;

 private:
  explicit OwnCode(const TargetCode& code) : code_(code) {}
  const TargetCode& code_;
  std::span<uint8_t> private_, area_;
  std::vector<MapInfo> maps_;  // not those in shared memory, which the target can write to
};

}  // namespace uscope::engine::inproc
