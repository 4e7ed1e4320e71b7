// Tells whether a target, or any process that it has forked, still has what was brought there. The last page
// of a journal is never written, so all that have the journal have the very page of the file behind it, a
// forked child from the first moment on; and we have it as well. The kernel says whether a page is mapped
// more than once.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "engine/inproc/target/journal.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

class Witness {
 public:
  // The target is stopped, its journal is the last in the file.
  Witness(const Fd& file, const Journal& journal, const process::RemoteMemory& target);
  Witness(Witness&& other) noexcept;
  Witness& operator=(Witness&& other) noexcept;
  ~Witness();

  // False also where it cannot be told.
  bool is_alone() const { return is_reliable_ && look() == Sight::Alone; }

 private:
  enum class Sight { Alone, Shared, Unknown };
  Sight look() const;

  const volatile uint8_t* page_ = nullptr;
  bool is_reliable_ = false;
};

}  // namespace uscope::engine::inproc
