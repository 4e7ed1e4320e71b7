// uscope's memory in a target: code, data shared with uscope, memory private to the target's threads, and the
// journal of it all. Mapped in one stop by system calls that the target is made to run; the target keeps no
// fd. Taking it away is remove.h's business.
#pragma once

#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "engine/inproc/target/journal.h"
#include "engine/inproc/target/patch.h"
#include "process/ptrace.h"
#include "process/seccomp_filter.h"

namespace uscope::engine::inproc {

struct PieceRequest {
  enum class Use : uint32_t {
    code,          // the target may execute it; uscope fills it in through the memfd before it is used
    shared_data,   // both read and write it
    private_data,  // the target's own, threads may have their stack there
  };
  Use use = Use::code;
  uint64_t size = 0;
  // Every byte of it must be within 2 GB of all this; size 0: anywhere.
  AddressSpan reach;
  uint64_t wiped = 0;  // of private_data: so many bytes at its start are zero in a forked child
};

struct AreaRequest {
  std::vector<PieceRequest> pieces;
  bool can_wait = false;    // nothing depends on it now: a process that is not to be stopped soon is left
  size_t most_patches = 0;  // that the journal has room for
  std::vector<process::CallToCome> system_calls;  // that the code in it will make
};

struct Piece {
  AddressSpan where;
  uint64_t memfd_offset = 0;  // of code and shared_data
};

struct Area {
  Fd memory;                  // the memfd behind code and shared_data, open for reading and writing
  std::vector<Piece> pieces;  // in the request's order
  Journal journal;
  JournalContents contents;
};

// The process is stopped; on failure nothing of it stays behind. `shared`, if open, is memory that another
// area has made, whose first bytes become the one piece of shared data.
Result<Area> map_area(process::SeizedProcess& process, const AreaRequest& request, const Fd& shared = Fd());

}  // namespace uscope::engine::inproc
