// What uscope has done to a process, written down in that process's own memory before it is done: which
// memory it mapped and which bytes it replaced. Whoever comes later (`uscope detach`, the next attach) can
// take it all back, even if the uscope that did it was killed.
//
// The journal is a private mapping of the session's memfd, which /proc/PID/maps shows as "/memfd:uscope". A
// forked child so gets a journal of its own that matches its own copy of the code. Only uscope writes it,
// through /proc/PID/mem; the process never looks at it. What is read back is checked, a process may have
// scribbled over it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/inproc/target/patch.h"
#include "process/maps.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

inline constexpr std::string_view area_name = "uscope";

// Who is at work on a process, so that two do not work on it at once.
struct Owner {
  pid_t pid = 0;
  uint64_t start_time = 0;
  uint64_t pid_namespace = 0;

  static Owner self();
  // Whether it still runs; nothing when it is of another pid namespace and cannot be seen from here.
  std::optional<bool> is_alive() const;
  friend bool operator==(const Owner&, const Owner&) = default;
};

struct JournalContents {
  Owner owner;
  std::vector<AddressSpan> mappings;    // all that was mapped, the journal's own place among them
  std::vector<AddressSpan> code;        // where threads may be that must leave before it is unmapped
  std::vector<AddressSpan> stacks;      // where their stack pointers may be meanwhile
  std::vector<Patch> patches;           // places are not kept: only installing needs them
  std::vector<ProcessAddr> semaphores;  // of USDT probes, that have been counted up
};

class Journal {
 public:
  static uint64_t size_for(size_t patches);

  // Begins a journal in memory that was mapped for it and is all zero.
  static Result<Journal> create(process::RemoteMemory& memory, AddressSpan where,
                                const JournalContents& contents);
  // Every journal in a process that can be believed.
  static std::vector<JournalContents> find_all(const process::RemoteMemory& memory,
                                               const process::Maps& maps);

  // Notes patches before they are made.
  Status add(process::RemoteMemory& memory, std::span<const Patch> patches);
  // Notes semaphores; they count as counted up only once confirm_semaphores() has said so: who is killed in
  // between leaves one too high, which costs the target a little time, rather than one too low.
  Status add_semaphores(process::RemoteMemory& memory, std::span<const ProcessAddr> semaphores);
  Status confirm_semaphores(process::RemoteMemory& memory);
  // What lies in these stretches is gone, and is not to be undone any more.
  Status forget(process::RemoteMemory& memory, std::span<const AddressSpan> spans);
  // Whether it is still there: an exec takes it away with everything else.
  bool is_present(const process::RemoteMemory& memory) const;
  AddressSpan where() const { return where_; }
  // Is never written: see witness.h.
  ProcessAddr last_page() const;
  size_t room() const;

 private:
  Journal(AddressSpan where, Owner owner) : where_(where), owner_(owner) {}
  AddressSpan where_;
  Owner owner_;
  // Beside the records: where each is, or nothing if it was forgotten.
  struct Noted {
    ProcessAddr address;
    bool is_semaphore = false;
  };
  Status set_kind(process::RemoteMemory& memory, size_t record, uint8_t kind) const;
  Status write_records(process::RemoteMemory& memory, Bytes raw, size_t count);
  std::vector<std::optional<Noted>> noted_;
};

}  // namespace uscope::engine::inproc
